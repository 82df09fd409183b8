package login

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/internal/rulesfile"
)

// Count is what a step counts. It is a closed set; the same word is used in the rules file, JSON and metrics.
type Count string

// What steps count.
const (
	CountName       Count = "name"         // failed attempts for a name, from any address
	CountNameIP     Count = "name_ip"      // failed attempts for a name from one address
	CountIP         Count = "ip"           // failures from an address
	CountNamesPerIP Count = "names_per_ip" // different names that failed from an address
	CountNetwork    Count = "network"      // failures from the /48 network of an IPv6 address
	CountDevice     Count = "device"       // failures of the holder of a device token
)

// A Step is a login rule: one step of the escalation ladder for failed logins.
type Step struct {
	Count       Count
	Limit       int           // number of failures, or names, from which on the rule acts
	Window      time.Duration // time window of the failures; 0 if Consecutive
	Consecutive bool          // counts failures since the last success
	Then        Action        // Challenge, Delay, Deny, Ban or Revoke
	For         time.Duration // how long the rule acts after the last failure; 0: as long as the failures count
	Growing     bool          // For is doubled each time
	AtMost      time.Duration // maximum of a growing For
	Shadow      bool          // only reports
}

// Name returns a name that is unique within the file.
func (s *Step) Name() string {
	within := "in-a-row"
	if !s.Consecutive {
		within = "in-" + shortDuration(s.Window)
	}
	return fmt.Sprintf("login-%s-%d-%s-%s", strings.ReplaceAll(string(s.Count), "_", "-"), s.Limit, within, s.Then)
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
	maxSteps      = 100
	maxStepLimit  = 1000
	maxNamesPerIP = 250
	maxStepTime   = 30 * 24 * time.Hour
	defaultAtMost = 24 * time.Hour
)

const stepExample = "{count: name, limit: 3, window: 1m, then: challenge, for: 10m}"

// Section is the section `login` of the rules file. A program that passes it to rules.Load gets an error for a file whose login rules are
// invalid.
var Section = rulesfile.NewSection("login", readSteps)

// Steps returns the login rules of the file, in its order, or the built-in ones if it has none.
func Steps(set *rules.Set) ([]Step, error) {
	steps, err := Section.In(set.Sections())
	if len(steps) == 0 && err == nil {
		steps, err = Section.In(rules.Default().Sections())
	}
	if err != nil {
		return nil, fmt.Errorf("login: %w", err)
	}
	return slices.Clone(steps), nil
}

func readSteps(n *rulesfile.Node) (all []Step, err error) {
	seen := map[string]bool{}
	err = n.List("login", func(n *rulesfile.Node) error {
		s, err := readStep(n)
		if err != nil {
			return err
		}
		if problem := s.problem(); problem != "" {
			return n.Wrong("%s", problem)
		}
		if seen[s.Name()] {
			return n.Wrong("this login rule stands here twice: the same count, limit, window and action")
		}
		seen[s.Name()] = true
		if len(all) == maxSteps {
			return n.Wrong("there are more than %d login rules", maxSteps)
		}
		all = append(all, s)
		return nil
	})
	return all, err
}

func readStep(n *rulesfile.Node) (s Step, err error) {
	length := func(key string, to *time.Duration) rulesfile.Field {
		return rulesfile.Into(key, to, func(n *rulesfile.Node) (time.Duration, error) {
			d, err := n.Duration(key)
			if err == nil && d > maxStepTime {
				err = n.Wrong("%s should be at most 720h, here is %v", key, d)
			}
			return d, err
		})
	}
	err = n.Fields("a login rule",
		rulesfile.Word("count", &s.Count, CountName, CountNameIP, CountIP, CountNamesPerIP, CountNetwork, CountDevice),
		rulesfile.Number("limit", &s.Limit, 1, maxStepLimit),
		length("window", &s.Window),
		rulesfile.Bool("consecutive", &s.Consecutive),
		rulesfile.Word("then", &s.Then, Challenge, Delay, Deny, Ban, Revoke),
		length("for", &s.For),
		rulesfile.Bool("growing", &s.Growing),
		length("at_most", &s.AtMost),
		rulesfile.Bool("shadow", &s.Shadow),
	)
	return s, err
}

// problem returns what is inconsistent in the rule, or "". It also fills in AtMost.
func (s *Step) problem() string {
	name := s.Count == CountName
	address := s.Count == CountIP || s.Count == CountNamesPerIP || s.Count == CountNetwork
	switch {
	case s.Count == "" || s.Limit == 0 || s.Then == "":
		return "the login rule has no count, limit or then, it should be such as " + stepExample
	case (s.Window == 0) != s.Consecutive:
		return "a login rule has either a window or consecutive: true, such as " + stepExample
	case s.Count == CountNamesPerIP && s.Limit > maxNamesPerIP:
		return fmt.Sprintf("limit should be at most %d for names_per_ip, whose names are all looked at each time", maxNamesPerIP)
	case s.Consecutive && s.Count == CountNamesPerIP:
		return "names_per_ip counts within a window"
	case s.Consecutive && (s.Count == CountIP || s.Count == CountNetwork):
		return "failures of an address do not come in a row: somebody else's success would end it. Give it a window"
	case name && (s.Then == Deny || s.Then == Ban):
		return "then: " + string(s.Then) + " for a name would let any stranger lock its owner out; a name is challenged or delayed, name_ip " +
			"may be denied"
	case s.Then == Ban && !address:
		return "then: ban is for ip, names_per_ip and network"
	case (s.Then == Revoke) != (s.Count == CountDevice):
		return "then: revoke is for device, and nothing else is: without its token the device is like any other"
	case s.For == 0 && (s.Then == Delay || s.Then == Ban):
		return "then: " + string(s.Then) + " needs a time, such as for: 10m"
	case s.For != 0 && s.Then == Revoke:
		return "a device token is revoked for good, leave out for"
	case s.Then == Revoke && !s.Consecutive:
		return "then: revoke is for failures in a row, with consecutive: true: what lies in a window would be forgotten with it"
	case s.Growing && s.Consecutive:
		return "growing is for a rule with a window"
	case s.Growing && s.For == 0:
		return "growing needs a time to begin with, such as for: 5m"
	case s.AtMost != 0 && !s.Growing:
		return "at_most is for growing: true"
	case s.AtMost != 0 && s.AtMost < s.For:
		return fmt.Sprintf("at_most is %v, less than for, which is %v", s.AtMost, s.For)
	}
	if s.Growing && s.AtMost == 0 {
		s.AtMost = max(defaultAtMost, s.For)
	}
	return ""
}
