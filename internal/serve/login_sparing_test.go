package serve

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/bans"
)

// TestFailedLoginsDoNotBanAProxy: a backend that reports its proxy's address for all clients must not get the proxy banned.
func TestFailedLoginsDoNotBanAProxy(t *testing.T) {
	gate, err := admission.NewWithStore(memorystore.New(memorystore.Options{}), rules.Default(), admission.Options{Secret: []byte(strings.Repeat("s", 32))})
	if err != nil {
		t.Fatal(err)
	}
	list := sparing{gate, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	for value, banned := range map[string]bool{"10.1.2.3": false, "::ffff:10.1.2.3": false, "203.0.113.7": true} {
		ip := netip.MustParseAddr(value)
		_, err := list.Ban(t.Context(), bans.Order{Target: bans.Target{Kind: bans.IP, Value: value}, For: time.Minute})
		if _, _, ok := list.Banned(admission.Request{IP: ip}); ok != banned || errors.Is(err, bans.ErrRefused) == banned {
			t.Errorf("%s: banned %v, %v", value, ok, err)
		}
	}
}
