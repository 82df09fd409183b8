package login

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/failure"
)

// A Subject is the subject of an operator's query: a name, an address, or the pair of both.
type Subject struct {
	Name   string     // empty: none
	IP     netip.Addr // zero: none
	Factor string     // empty means password
}

// A RuleState is the state of a subject in one rule.
type RuleState struct {
	Rule   string
	Count  Count
	Limit  int
	Window time.Duration // 0: consecutive failures
	Action Action
	Shadow bool

	Failed   int       // failures that count now
	InFlight int       // pending attempts; for names_per_ip the number of their names
	Active   bool      // the rule is acting
	Until    time.Time // Active: the end; zero: as long as the failures count
	Times    int       // consecutive penalties
}

// RuleStates returns the state of a subject in every rule that counts it. It changes nothing. The error is ErrInvalid or ErrUnavailable.
func (t *Throttle) RuleStates(ctx context.Context, s Subject) ([]RuleState, error) {
	keys, tag, err := t.subjectKeys(s)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, t.opts.Timeout)
	defer cancel()
	states, now, err := t.store.look(ctx, keys)
	if err != nil {
		return nil, err
	}
	return t.currentRules().full.ruleStates(&attemptState{states, tag}, now), nil
}

func (rs *ruleSet) ruleStates(a *attemptState, now int64) []RuleState {
	var all []RuleState
	rs.age(a, now)
	for i := range rs.rules {
		r := &rs.rules[i]
		s := a.of[r.kind]
		if s == nil {
			continue
		}
		failed, both := a.count(r, now)
		active, left, _ := a.ruleState(r, now)
		st := RuleState{
			Rule: r.name, Count: r.Count, Limit: r.Limit, Window: r.Window, Action: r.Then, Shadow: r.Shadow,
			Failed: int(failed), InFlight: int(both - failed), Active: active, Times: int(s.dataOf(r).times),
		}
		if active && r.length > 0 {
			st.Until = time.UnixMicro(now + left).UTC()
		}
		all = append(all, st)
	}
	return all
}

// Banned returns the ban that excludes a subject, and the time left of it. The address is checked without the name: anybody can type a
// name, and an allowed name must not protect the address from its ban. A ban of a user is looked up by the name as typed and as
// normalized.
func (t *Throttle) Banned(s Subject) (b bans.Ban, left time.Duration, ok bool) {
	if t.opts.Bans == nil {
		return bans.Ban{}, 0, false
	}
	asked := []admission.Request{{IP: s.IP}, {User: s.Name}}
	if name, err := t.normalize(s.Name); err == nil && name != s.Name {
		asked = append(asked, admission.Request{User: name})
	}
	for _, req := range asked {
		if b, left, ok = t.opts.Bans.Banned(req); ok {
			break
		}
	}
	return b, left, ok
}

// Lift drops the failures of a subject, and thereby every penalty except bans. If name and address are given, it also drops those of the
// pair. The error is ErrInvalid or ErrUnavailable.
func (t *Throttle) Lift(ctx context.Context, s Subject) error {
	keys, _, err := t.subjectKeys(s)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, t.opts.Timeout)
	defer cancel()
	if err := t.local.forget(ctx, keys); err != nil {
		return err
	}
	return t.store.forget(ctx, keys)
}

// subjectKeys returns the keys of the states of a subject.
func (t *Throttle) subjectKeys(s Subject) (keys [kinds]string, tag nameTag, err error) {
	factor, err := validFactor(s.Factor)
	if err != nil {
		return keys, tag, err
	}
	if s.Name == "" && !s.IP.IsValid() {
		return keys, tag, failure.New(ErrInvalid, "a name or an address is required")
	}
	var name digest
	if s.Name != "" {
		typed, err := t.normalize(s.Name)
		if err != nil {
			return keys, tag, err
		}
		name = t.keys.name(typed)
	}
	keys, tag = t.keys.keys(name, s.IP, "", factor)
	if s.Name == "" {
		keys[byName], keys[byPair] = "", ""
	}
	return keys, tag, nil
}

// Reference returns the reference that events use for a login name. The error is ErrInvalid.
func (t *Throttle) Reference(name string) (string, error) {
	typed, err := t.normalize(name)
	if err != nil {
		return "", err
	}
	return reference(t.keys.name(typed)), nil
}

// Mask returns an address without its last part: 203.0.113.x, or the first 48 bits of an IPv6 address.
func Mask(ip netip.Addr) string {
	ip = ip.Unmap()
	switch {
	case ip.Is4():
		b := ip.As4()
		return fmt.Sprintf("%d.%d.%d.x", b[0], b[1], b[2])
	case ip.IsValid():
		p, _ := ip.WithZone("").Prefix(48)
		return p.String()
	}
	return ""
}
