package admission

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/admission/rules"
)

// Keys have the same form for every subject, and are unique.
func FuzzSubject(f *testing.F) {
	set, err := rules.Parse("test.yaml", []byte(`version: 1
rules:
  - {name: user, subject: user, limit: 1, window: 1s}
  - {name: ip, subject: ip, limit: 1, window: 1s}
  - {name: network, subject: network, limit: 1, window: 1s}
  - {name: caller, subject: caller, limit: 1, window: 1s}
  - {name: device, subject: device, limit: 1, window: 1s}
  - {name: session, subject: session, limit: 1, window: 1s}
  - {name: attribute, subject: plan, limit: 1, window: 1s}
  - {name: all, subject: [user, device, session, plan], limit: 1, window: 1s}
  - {name: joint, subject: [user, device], joint: device, limit: 1, window: 1s}
`))
	if err != nil {
		f.Fatal(err)
	}
	keys, err := newKeyring("tidegate", []byte("a secret of the tests, 32 bytes."))
	if err != nil {
		f.Fatal(err)
	}
	f.Add("ann", "phone", "s1", "gold", []byte{192, 0, 2, 1})
	f.Add("", "}:x", "{a}", "\x00", netip.MustParseAddr("::ffff:192.0.2.1").AsSlice())
	f.Add("a\nb", "🎟️", "\xff\xfe", strings.Repeat("x", 10_000), netip.MustParseAddr("2001:db8::1").AsSlice())
	f.Add("user", "device", "192.0.2.1", "user", []byte{1})
	f.Fuzz(func(t *testing.T, user, device, session, plan string, ip []byte) {
		addr, _ := netip.AddrFromSlice(ip)
		seen := map[string][]string{}
		for _, req := range []Request{
			{User: user, Device: device, Session: session, IP: addr, Attributes: map[string]string{"plan": plan}},
			{User: device, Device: session, Session: plan, IP: addr.WithZone("eth0"), Attributes: map[string]string{"plan": user}},
			{User: user + device, Session: session + plan},
		} {
			var p rules.Plan
			if err := set.PlanCounting(&p, &req); err != nil {
				t.Fatal(err)
			}
			for i := range p.Checks {
				parts := p.Subject(&p.Checks[i])
				key := keys.window(keys.subject(parts...), "abcdefgh")
				if !keyForm.MatchString(key) {
					t.Errorf("%.80q has the key %q", parts, key)
				}
				if other, ok := seen[key]; ok && !slices.Equal(other, parts) {
					t.Errorf("%.80q and %.80q share a key", other, parts)
				}
				seen[key] = parts
			}
		}
	})
}
