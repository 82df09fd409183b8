package koala

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tidegate/tidegate/admission/store"
)

// A rule is one line of [rules].
type rule struct {
	at         part
	answer     part   // [result=…; return=…]
	method     string // direct, count, base or leak
	conditions []condition
	base       int // free units a day, for base
	seconds    int // window of count
	count      int
	erase      [2]int // units that each of the two feedbacks takes back, for leak
	result     int
	code       int // the return number, which identifies the rule
}

// day is the window, in seconds, that means calendar days; every other value is a length of time.
const day = 86400

// Bounds of a rules file.
const (
	maxUnits   = 1_000_000_000 // of a limit
	maxCounted = 8             // parameters in one count
)

var methods = []string{"direct", "count", "base", "leak"}

// Parameters by method: the required ones, then the optional ones.
var (
	needed  = map[string][]string{"direct": nil, "count": {"time", "count"}, "base": {"base", "time", "count"}, "leak": {"time", "count"}}
	allowed = map[string][]string{
		"direct": {"time", "count"}, "count": {"time", "count"}, "base": {"base", "time", "count"},
		"leak": {"time", "count", "erase1", "erase2"},
	}
)

// readRule parses a line such as rule : [count] [act=ask; uid=+] [time=60; count=5] [result=2; return=201].
func (f *file) readRule(p part) error {
	word, rest, ok := p.cut(":")
	if !ok || !strings.EqualFold(word.text, "rule") {
		return p.wrong("a rule must begin with rule :")
	}
	r := &rule{at: p}
	var groups [4]part
	for i := range groups {
		var err error
		if groups[i], rest, err = rest.brackets(); err != nil {
			return err
		}
	}
	if rest.text != "" {
		return rest.wrong("a rule must end after four groups in brackets")
	}
	r.method = groups[0].text
	if !slices.Contains(methods, r.method) {
		return groups[0].wrong("the method must be direct, count, base or leak, got %q", r.method)
	}
	if err := f.readConditions(r, groups[1]); err != nil {
		return err
	}
	if err := r.readThresholds(groups[2]); err != nil {
		return err
	}
	if err := r.readAnswer(groups[3]); err != nil {
		return err
	}
	for _, o := range f.rules {
		if o.code == r.code {
			return groups[3].wrong("return=%d is used by the rule in line %d; return numbers must be unique", r.code, o.at.line.number)
		}
	}
	f.rules = append(f.rules, r)
	f.ruleAt[p.line] = r
	return nil
}

func (f *file) readConditions(r *rule, group part) error {
	parts, err := group.split(';')
	if err != nil {
		return err
	}
	for _, p := range parts {
		c, err := f.parseCondition(p)
		if err != nil {
			return err
		}
		r.conditions = append(r.conditions, c)
	}
	if subject, _ := r.subject(); len(subject) > maxCounted && r.method != "direct" {
		return group.wrong("a rule must count by at most %[2]d parameters, got %[1]d", len(subject), maxCounted)
	}
	return nil
}

// numbers parses a group such as time=60; count=5 into the variables by name.
func numbers(group part, into map[string]*int) (found []string, err error) {
	parts, err := group.split(';')
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		name, value, ok := p.cut("=")
		to := into[name.text]
		n, err := strconv.ParseInt(value.text, 10, 32)
		switch {
		case p.text == "" && len(parts) == 1:
			return nil, nil
		case !ok || to == nil:
			return nil, p.wrong("must be one of %[2]s, each with a number, got %[1]q", p.text, strings.Join(slices.Sorted(maps.Keys(into)), ", "))
		case err != nil || n < 0:
			return nil, value.wrong("%s must be a whole number of at most %d, got %q", name.text, math.MaxInt32, value.text)
		case slices.Contains(found, name.text):
			return nil, p.wrong("%s is given twice", name.text)
		}
		*to, found = int(n), append(found, name.text)
	}
	return found, nil
}

func (r *rule) readThresholds(group part) error {
	into := map[string]*int{"base": &r.base, "time": &r.seconds, "count": &r.count, "erase1": &r.erase[0], "erase2": &r.erase[1]}
	found, err := numbers(group, into)
	if err != nil {
		return err
	}
	for _, name := range found {
		if !slices.Contains(allowed[r.method], name) {
			return group.wrong("a %s rule has no %s", r.method, name)
		}
	}
	for _, name := range needed[r.method] {
		if *into[name] < 1 {
			return group.wrong("a %s rule must have a %s of 1 or more; leave the rule out if there is no limit", r.method, name)
		}
	}
	for _, name := range []string{"base", "count"} {
		most := maxUnits
		if name == "count" && (r.method == "base" || r.method == "leak") {
			most = store.MaxLogged // one time is stored for each unit
		}
		if *into[name] > most && r.method != "direct" {
			return group.wrong("%[1]s of a %[3]s rule must be at most %[4]d, got %[2]d", name, *into[name], r.method, most)
		}
	}
	if longest := 366 * day; r.method != "direct" && r.seconds > longest {
		return group.wrong("time must be at most %[2]d, the seconds of 366 days, got %[1]d", r.seconds, longest)
	}
	return nil
}

func (r *rule) readAnswer(group part) error {
	r.answer = group
	into := map[string]*int{"result": &r.result, "return": &r.code}
	if _, err := numbers(group, into); err != nil {
		return err
	}
	for _, name := range []string{"result", "return"} {
		if *into[name] < 1 {
			return group.wrong("a rule must have a %s of 1 or more, as in [result=2; return=201]", name)
		}
	}
	return nil
}

// name returns the rule's name in the generated rules file.
func (r *rule) name() string { return "return-" + strconv.Itoa(r.code) }

// window returns the window in the form of a rules file.
func (r *rule) window() string {
	if r.daily() {
		return "day"
	}
	switch {
	case r.seconds%3600 == 0:
		return strconv.Itoa(r.seconds/3600) + "h"
	case r.seconds%60 == 0:
		return strconv.Itoa(r.seconds/60) + "m"
	}
	return strconv.Itoa(r.seconds) + "s"
}

// daily reports whether the rule counts by calendar day.
func (r *rule) daily() bool { return r.method == "count" && r.seconds == day }
