package shop_test

import (
	"os"
	"testing"

	"github.com/tidegate/tidegate/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.AtOnce(8)
	os.Exit(testenv.Main(m))
}
