package rooms

import (
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/tidegate/tidegate/waitingroom"
)

// The contract says the defaults in tags, which cannot be constants.
func TestDefaultsAreThoseOfThePackage(t *testing.T) {
	body, _ := reflect.TypeFor[putRoomInput]().FieldByName("Body")
	for name, want := range map[string]time.Duration{"ClaimMS": waitingroom.DefaultClaimWindow, "PassMS": waitingroom.DefaultPassLifetime} {
		f, ok := body.Type.FieldByName(name)
		if got := f.Tag.Get("default"); !ok || got != strconv.FormatInt(want.Milliseconds(), 10) {
			t.Errorf("%s: %q, want %d", name, got, want.Milliseconds())
		}
	}
}
