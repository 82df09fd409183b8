package captcha_test

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m))
}

// memoryUsed is Used in one process. It is unavailable while err is not nil.
type memoryUsed struct {
	mu   sync.Mutex
	keys map[string]time.Duration
	err  error
}

func (u *memoryUsed) First(_ context.Context, key string, ttl time.Duration) (bool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err != nil {
		return false, u.err
	}
	if _, ok := u.keys[key]; ok {
		return false, nil
	}
	if u.keys == nil {
		u.keys = map[string]time.Duration{}
	}
	u.keys[key] = ttl
	return true, nil
}
