package login

import (
	"net/netip"
	"testing"
	"time"
)

// Keys and tokens survive deployments: a change here starts all counts from zero, and voids what callers hold.
func TestKeyAndTokenStrings(t *testing.T) {
	k, err := newKeyring("tidegate", []byte("a secret of the tests, 32 bytes."))
	if err != nil {
		t.Fatal(err)
	}
	name := k.name("ann")
	keys, _ := k.keys(name, netip.MustParseAddr("192.0.2.7"), "device", "otp")
	for what, c := range map[string][2]string{
		"key of a pair":   {keys[byPair], "tidegate:{login}:p:WN-gsrMqZzKuT_ALWaR0Uw:otp"},
		"key of a device": {keys[byDevice], "tidegate:{login}:d:NED5KE08H2SxDaLfBhI7PQ:otp"},
		"attempt":         {k.attemptToken(&attemptID{at: 5, name: name, ip: netip.MustParseAddr("192.0.2.7"), factor: Password}), "AQAAAAAAAAAABQAAAAAAAAAAAAAAAAAAAACyNbcKoJSW-nJWUkMYAYPHAAAAAAAAAAAAAP__wAACBwhwYXNzd29yZDWJ-YSZMLBNXVVPcmDBCkQ"},
		"device":          {k.deviceToken("0123456789ab", name, Password, time.Unix(1_800_000_000, 0)), "AjAxMjM0NTY3ODlhYkS7v241gUr0hQ87DwuDCD9rSdIAdzsYue2AB5srGh6GJIN2-g"},
	} {
		if c[0] != c[1] {
			t.Errorf("%s = %q, want %q", what, c[0], c[1])
		}
	}
}
