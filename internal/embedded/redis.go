package embedded

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/periodic"
)

// tick is how much later a key may expire.
const tick = 250 * time.Millisecond

// memory is the Redis server in this process. It starts empty.
type memory struct {
	server *miniredis.Miniredis
	url    config.URL
}

// startMemory listens on the loopback, with a password, because other users of the machine can connect too.
func startMemory() (*memory, error) {
	server := miniredis.NewMiniRedis()
	password := rand.Text()
	server.RequireAuth(password)
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("embedded: start Redis in memory: %w", err)
	}
	return &memory{server: server, url: config.URL("redis://:" + password + "@" + server.Addr() + "/0")}, nil
}

// Run advances the server's clock, without which keys do not expire.
func (m *memory) Run(ctx context.Context) error {
	last := time.Now()
	return periodic.Every(ctx, tick, func() {
		now := time.Now()
		m.server.FastForward(now.Sub(last))
		last = now
	})
}

func (m *memory) close() { m.server.Close() }
