package orders_test

import (
	"flag"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/tidegate/tidegate/internal/testenv"
)

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "6"); err != nil { // the tests wait more than they work
		panic(err)
	}
	redis.SetLogger(&logging.VoidLogger{}) // it tells of every connection that a killed server refuses
	os.Exit(testenv.Main(m))
}
