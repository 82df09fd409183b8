package admission

import (
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// LoginCount is what a login rule counts. It is a closed set; the same word is used in the rules file, JSON and metrics.
type LoginCount string

// What login rules count.
const (
	CountName       LoginCount = "name"         // failed attempts for a name, from any address
	CountNameIP     LoginCount = "name_ip"      // failed attempts for a name from one address
	CountIP         LoginCount = "ip"           // failures from an address
	CountNamesPerIP LoginCount = "names_per_ip" // different names that failed from an address
	CountNetwork    LoginCount = "network"      // failures from the /48 network of an IPv6 address
	CountDevice     LoginCount = "device"       // failures of the holder of a device token
)

// LoginAction is what a login rule asks for. Closed set.
type LoginAction string

// What login rules do.
const (
	LoginChallenge LoginAction = "challenge" // require a solved CAPTCHA for each attempt
	LoginDelay     LoginAction = "delay"     // one attempt at a time, with pauses
	LoginDeny      LoginAction = "deny"
	LoginBan       LoginAction = "ban"    // ban the address, or the network, for all requests
	LoginRevoke    LoginAction = "revoke" // invalidate the device token
)

// A LoginRule is one step of the escalation ladder for failed logins. This package only parses it.
type LoginRule struct {
	Count       LoginCount
	Limit       int           // number of failures, or names, from which on the rule acts
	Window      time.Duration // time window of the failures; 0 if Consecutive
	Consecutive bool          // counts failures since the last success
	Then        LoginAction
	For         time.Duration // how long the rule acts after the last failure; 0: as long as the failures count
	Growing     bool          // For is doubled each time
	AtMost      time.Duration // maximum of a growing For
	Shadow      bool          // only reports
}

// Name returns a name that is unique within the file.
func (r *LoginRule) Name() string {
	within := "in-a-row"
	if !r.Consecutive {
		within = "in-" + shortDuration(r.Window)
	}
	return fmt.Sprintf("login-%s-%d-%s-%s", strings.ReplaceAll(string(r.Count), "_", "-"), r.Limit, within, r.Then)
}

// shortDuration formats 15m0s as 15m.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

const (
	maxLoginRules = 100
	maxLoginLimit = 1000
	maxNamesPerIP = 250
	maxLoginTime  = 30 * 24 * time.Hour
	defaultAtMost = 24 * time.Hour
)

const loginExample = "{count: name, limit: 3, window: 1m, then: challenge, for: 10m}"

// login parses the section `login`.
func (s *source) login(n ast.Node) (all []LoginRule, err error) {
	seen := map[string]bool{}
	err = s.list(n, "login", func(n ast.Node) error {
		r, err := s.loginRule(n)
		if err != nil {
			return err
		}
		if problem := r.problem(); problem != "" {
			return s.wrong(n, "%s", problem)
		}
		if seen[r.Name()] {
			return s.wrong(n, "this login rule stands here twice: the same count, limit, window and action")
		}
		seen[r.Name()] = true
		if len(all) == maxLoginRules {
			return s.wrong(n, "there are more than %d login rules", maxLoginRules)
		}
		all = append(all, r)
		return nil
	})
	return all, err
}

func (s *source) loginRule(n ast.Node) (r LoginRule, err error) {
	length := func(key string, into *time.Duration) field {
		return field{key, func(_, n ast.Node) (err error) {
			if *into, err = s.duration(n, key); err == nil && *into > maxLoginTime {
				err = s.wrong(n, "%s should be at most 720h, here is %v", key, *into)
			}
			return err
		}}
	}
	flag := func(key string, into *bool) field {
		return field{key, func(_, n ast.Node) (err error) {
			*into, err = s.boolean(n, key)
			return err
		}}
	}
	return r, s.mapping(n, "a login rule",
		field{"count", func(_, n ast.Node) error {
			word, err := s.oneOf(n, "count", string(CountName), string(CountNameIP), string(CountIP), string(CountNamesPerIP),
				string(CountNetwork), string(CountDevice))
			r.Count = LoginCount(word)
			return err
		}},
		field{"limit", func(_, n ast.Node) (err error) {
			r.Limit, err = s.number(n, "limit", 1, maxLoginLimit)
			return err
		}},
		length("window", &r.Window),
		flag("consecutive", &r.Consecutive),
		field{"then", func(_, n ast.Node) error {
			word, err := s.oneOf(n, "then", string(LoginChallenge), string(LoginDelay), string(LoginDeny), string(LoginBan), string(LoginRevoke))
			r.Then = LoginAction(word)
			return err
		}},
		length("for", &r.For),
		flag("growing", &r.Growing),
		length("at_most", &r.AtMost),
		flag("shadow", &r.Shadow),
	)
}

// problem returns what is inconsistent in the rule, or "". It also fills in AtMost.
func (r *LoginRule) problem() string {
	name := r.Count == CountName
	address := r.Count == CountIP || r.Count == CountNamesPerIP || r.Count == CountNetwork
	switch {
	case r.Count == "" || r.Limit == 0 || r.Then == "":
		return "the login rule has no count, limit or then, it should be such as " + loginExample
	case (r.Window == 0) != r.Consecutive:
		return "a login rule has either a window or consecutive: true, such as " + loginExample
	case r.Count == CountNamesPerIP && r.Limit > maxNamesPerIP:
		return fmt.Sprintf("limit should be at most %d for names_per_ip, whose names are all looked at each time", maxNamesPerIP)
	case r.Consecutive && r.Count == CountNamesPerIP:
		return "names_per_ip counts within a window"
	case r.Consecutive && (r.Count == CountIP || r.Count == CountNetwork):
		return "failures of an address do not come in a row: somebody else's success would end it. Give it a window"
	case name && (r.Then == LoginDeny || r.Then == LoginBan):
		return "then: " + string(r.Then) + " for a name would let any stranger lock its owner out; a name is challenged or delayed, name_ip may be denied"
	case r.Then == LoginBan && !address:
		return "then: ban is for ip, names_per_ip and network"
	case (r.Then == LoginRevoke) != (r.Count == CountDevice):
		return "then: revoke is for device, and nothing else is: without its token the device is like any other"
	case r.For == 0 && (r.Then == LoginDelay || r.Then == LoginBan):
		return "then: " + string(r.Then) + " needs a time, such as for: 10m"
	case r.For != 0 && r.Then == LoginRevoke:
		return "a device token is revoked for good, leave out for"
	case r.Then == LoginRevoke && !r.Consecutive:
		return "then: revoke is for failures in a row, with consecutive: true: what lies in a window would be forgotten with it"
	case r.Growing && r.Consecutive:
		return "growing is for a rule with a window"
	case r.Growing && r.For == 0:
		return "growing needs a time to begin with, such as for: 5m"
	case r.AtMost != 0 && !r.Growing:
		return "at_most is for growing: true"
	case r.AtMost != 0 && r.AtMost < r.For:
		return fmt.Sprintf("at_most is %v, less than for, which is %v", r.AtMost, r.For)
	}
	if r.Growing && r.AtMost == 0 {
		r.AtMost = max(defaultAtMost, r.For)
	}
	return ""
}
