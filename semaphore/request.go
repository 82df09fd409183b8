package semaphore

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxWeight bounds a weight.
	MaxWeight = 10_000
	// MaxAlso bounds how many other semaphores one acquisition may take.
	MaxAlso = 7
	// MaxText bounds the bytes of a holder's name and of a request's id.
	MaxText = 255
)

// A Request is what an acquisition asks for. The zero value asks for one permit.
type Request struct {
	// Weight is how much of the limit is taken, from 1 to MaxWeight. 0 means 1. Redis adds up the weights above 1 of all holders with each
	// operation, so where thousands of them are held at once give them 1 and the limit another unit.
	Weight int
	// Also names other semaphores of which the same weight is taken at the same instant: all of them, or none. Their names must share the
	// hash tag, see CheckName.
	Also []string
	// Holder says who asks, for those who look at the list of holders. Empty means the Set's.
	Holder string
	// ID makes a resent request harmless: while the first one waits or holds its permit, another with the same ID gets the same one. It
	// is unique to the semaphore. Empty means an ID of its own.
	ID string
	// Try does not wait.
	Try bool
}

var names = regexp.MustCompile(`^([a-z0-9-]{1,64}:)?[a-z0-9-]{1,64}$`)

// CheckName returns an ErrInvalid unless name is 1 to 64 of a-z 0-9 -, or two of those with a colon between. What stands before the colon is
// the hash tag: semaphores with the same tag, or all without one, live in one slot of a Redis Cluster, and can be acquired together.
func CheckName(name string) error {
	if !names.MatchString(name) {
		return invalid("name is %.80q, should be 1 to 64 of a-z 0-9 -, and may begin with a hash tag of the same and a colon", name)
	}
	return nil
}

func tagOf(name string) string {
	tag, _, tagged := strings.Cut(name, ":")
	if !tagged {
		return ""
	}
	return tag
}

// A ticket is a request on its way: what Redis knows it by, and all names.
type ticket struct {
	key    string // of the queue and the holders: 22 characters
	names  []string
	weight int
	holder string
	token  int64 // 0 until it is granted
}

func (s *Semaphore) ticket(r Request) (ticket, error) {
	t := ticket{names: append([]string{s.name}, r.Also...), weight: r.Weight, holder: r.Holder}
	if t.weight == 0 {
		t.weight = 1
	}
	if t.holder == "" {
		t.holder = s.set.opts.Holder
	}
	if t.weight < 1 || t.weight > MaxWeight {
		return t, invalid("weight is %d, should be 1 to %d", r.Weight, MaxWeight)
	}
	if err := checkText("holder", t.holder); err != nil {
		return t, err
	}
	if err := t.checkNames(); err != nil {
		return t, err
	}
	if r.ID == "" {
		t.key = random()
		return t, nil
	}
	if err := checkText("request id", r.ID); err != nil {
		return t, err
	}
	sum := sha256.Sum256([]byte(s.name + "\x00" + r.ID))
	t.key = base64.RawURLEncoding.EncodeToString(sum[:16])
	return t, nil
}

func (t *ticket) checkNames() error {
	if len(t.names) > 1+MaxAlso {
		return invalid("%d other semaphores at once, should be at most %d", len(t.names)-1, MaxAlso)
	}
	seen := map[string]bool{}
	for _, name := range t.names {
		if err := CheckName(name); err != nil {
			return err
		}
		if seen[name] {
			return invalid("%s is asked for twice", name)
		}
		if tagOf(name) != tagOf(t.names[0]) {
			return invalid("%s and %s are not in one slot: what is acquired together should have the same hash tag before the colon, or none", t.names[0], name)
		}
		seen[name] = true
	}
	return nil
}

func checkText(what, text string) error {
	if text == "" || len(text) > MaxText || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return invalid("%s is %.80q, should be 1 to %d bytes of text without control characters", what, text, MaxText)
	}
	return nil
}

// HolderName makes a holder's name of any text, such as one that a caller chose: control characters and what is no UTF-8 become question
// marks, and what is longer than MaxText bytes is cut off.
func HolderName(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, text)
	return strings.ToValidUTF8(text[:min(len(text), MaxText)], "")
}

// random returns a key that nobody else has.
func random() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// id is how a holder knows its permit. It says all that is needed to register again with a Redis that has lost its memory.
func (t *ticket) id() string {
	var b strings.Builder
	b.WriteString(t.key + "." + strconv.FormatInt(t.token, 36) + "." + strconv.Itoa(t.weight))
	for _, name := range t.names[min(1, len(t.names)):] {
		b.WriteString("~" + name)
	}
	return b.String()
}

var ids = regexp.MustCompile(`^([A-Za-z0-9_-]{22})\.([0-9a-z]{1,11})\.([0-9]{1,5})((?:~[a-z0-9:-]{1,129})*)$`)

// parseID is the reverse of id, for a permit of s.
func (s *Semaphore) parseID(id string) (ticket, error) {
	m := ids.FindStringSubmatch(id)
	if m == nil {
		return ticket{}, invalid("%.80q is no permit's id", id)
	}
	t := ticket{key: m[1], names: []string{s.name}, holder: s.set.opts.Holder}
	var err1, err2 error
	t.token, err1 = strconv.ParseInt(m[2], 36, 64)
	t.weight, err2 = strconv.Atoi(m[3])
	if err1 != nil || err2 != nil || t.token < 1 || t.token >= 1<<53 || t.weight < 1 || t.weight > MaxWeight {
		return ticket{}, invalid("%.80q is no permit's id", id)
	}
	if m[4] != "" {
		t.names = append(t.names, strings.Split(m[4][1:], "~")...)
	}
	return t, t.checkNames()
}
