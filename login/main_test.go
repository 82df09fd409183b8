package login_test

import (
	"context"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
)

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{}) // these tests lose servers on purpose
	os.Exit(testenv.Main(m))
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
