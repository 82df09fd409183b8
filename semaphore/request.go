package semaphore

import (
	"crypto/rand"
	"encoding/base64"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidegate/tidegate/internal/keyhash"
	"github.com/tidegate/tidegate/internal/names"
)

const (
	// MaxWeight bounds a weight.
	MaxWeight = 10_000
	// MaxAlso bounds how many other semaphores one acquisition may take.
	MaxAlso = 7
	// MaxText is the maximum length of a holder's name and of a request's ID, in characters.
	MaxText = 255
)

// A Request holds the parameters of an acquisition. The zero value asks for one permit.
type Request struct {
	// Weight is how much of the limit is taken, from 1 to MaxWeight. 0 means 1. Each operation sums the weights above 1 of all holders.
	// With thousands of such holders, use weight 1 and scale the limit instead.
	Weight int
	// Also names other semaphores of which the same weight is acquired atomically: all of them, or none. Their names must share the hash
	// tag, see CheckName.
	Also []string
	// Holder is the caller's name in the list of holders. Empty means that of the Set.
	Holder string
	// ID is an idempotency key: while a request waits or holds its permit, another request with the same ID gets the same permit. It is
	// unique within the semaphore. Empty means a random ID.
	ID string
	// Try makes the acquisition fail instead of waiting.
	Try bool
}

// CheckName returns an ErrInvalid unless name is 1 to names.Longest of a-z 0-9 -, or two such parts with a colon between them.
// The part before the colon is the hash tag: semaphores with the same tag, or all without one, are in one slot of a Redis Cluster
// and can be acquired together.
func CheckName(name string) error {
	if !names.Semaphore(name) {
		return invalid("name is %.80q, should be "+names.Length+" of a-z 0-9 -, and may begin with a hash tag of the same and a colon", name)
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

// A ticket identifies a request in Redis, with the names of its semaphores.
type ticket struct {
	key     string // in the queue and among the holders: 22 characters
	names   []string
	weight  int
	holder  string
	token   int64 // 0 until granted
	attempt int64 // unshared, or a number of the call: others may send the same ID. Callers who share a queueEntry have the first one's
}

// unshared is the attempt of a request whose key no other request has.
const unshared = 1

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
		t.key, t.attempt = random(), unshared
		return t, nil
	}
	if err := checkText("request id", r.ID); err != nil {
		return t, err
	}
	t.attempt = s.set.attempts.Add(1) + unshared
	t.key = keyhash.Of([]byte(s.name + "\x00" + r.ID)).String()
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
			return invalid("%s and %s are not in one slot: what is acquired together should have the same hash tag before the colon, or none",
				t.names[0], name)
		}
		seen[name] = true
	}
	return nil
}

func checkText(what, text string) error {
	if text == "" || utf8.RuneCountInString(text) > MaxText || !utf8.ValidString(text) ||
		strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return invalid("%s is %.80q, should be 1 to %d characters of text without control characters", what, text, MaxText)
	}
	return nil
}

// HolderName converts any text, such as a name from a client, to a valid holder's name: control characters and invalid UTF-8 become
// question marks, and the text is cut off after MaxText bytes.
func HolderName(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, text)
	return strings.ToValidUTF8(text[:min(len(text), MaxText)], "")
}

// random returns a unique key.
func random() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// id returns the permit's ID. It contains everything needed to register again after Redis has lost its data.
func (t *ticket) id() string {
	var b strings.Builder
	b.WriteString(t.key + "." + strconv.FormatInt(t.token, 36) + "." + strconv.Itoa(t.weight))
	for _, name := range t.names[min(1, len(t.names)):] {
		b.WriteString("~" + name)
	}
	return b.String()
}

var ids = regexp.MustCompile(`^([A-Za-z0-9_-]{22})\.([0-9a-z]{1,11})\.([0-9]{1,5})((?:~[a-z0-9:-]{1,129})*)$`)

// parseID is the inverse of id, for a permit of s.
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
