package redisstore_test

import (
	"testing"

	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/admission/store/storetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

// Redis' own clock, by which its keys expire too.
func TestAClockOfRedisThatIsSetRight(t *testing.T) {
	server := testenv.StartRedisWithClock(t)
	desk := storetest.NewDesk(t, redisstore.New(dial(t, server.URL())), nil)
	storetest.ClockSetRight(desk, server.SetClock)
}
