package redisstore

import (
	"context"
	"embed"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tidegate/tidegate/admission/internal/algorithm"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/internal/redisscript"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// A scriptParts is the set of parts that a script needs besides prelude.lua and decide.lua: one bit for each algorithm, by its place in
// store.Algorithms, and those below.
type scriptParts uint32

const (
	withStrikes scriptParts = 1 << (30 + iota)
	withRequests
)

// withAlgorithm returns the parts of an algorithm.
func withAlgorithm(name store.Algorithm) scriptParts { return 1 << algorithm.Index(name) }

// names returns the files of the parts in the order in which they are joined. Algorithms come after those that they use.
func (p scriptParts) names() []string {
	names := []string{"try", "lua/prelude"}
	for i, name := range store.Algorithms {
		if p&(1<<i) != 0 {
			names = append(names, "lua/"+string(name))
		}
	}
	if p&withStrikes != 0 {
		names = append(names, "lua/strikes")
	}
	if p&withRequests != 0 {
		names = append(names, "lua/requests")
	}
	return append(names, "lua/decide")
}

var (
	scriptsMu sync.Mutex
	scripts   = map[scriptParts]*redisscript.Script{} // guarded by scriptsMu
)

// scriptOf returns the script decide with the given parts: short scripts run faster.
func scriptOf(parts scriptParts) *redisscript.Script {
	scriptsMu.Lock()
	defer scriptsMu.Unlock()
	if s, ok := scripts[parts]; ok {
		return s
	}
	s := redisscript.New("admission decide", redisscript.Join(luaFiles, parts.names()...), "GET", "GETRANGE", "HGET", "HKEYS", "HLEN",
		"PTTL", "STRLEN")
	scripts[parts] = s
	return s
}

// Modes of a charge that spans several slots.
const (
	// refuse is a charge that another slot has already refused: it only counts refusals.
	refuse store.Mode = "refuse"
	// undo converts an earlier charge of this request into what refuse would have done.
	undo store.Mode = "undo"
)

// partsFor returns the parts of the script that t needs.
func partsFor(t *store.Tally, withID bool) scriptParts {
	parts := withAlgorithm(t.Algorithm)
	for _, name := range algorithm.Of(t.Algorithm).Uses {
		parts |= withAlgorithm(name)
	}
	if t.Strikes != nil {
		parts |= withStrikes | withAlgorithm(store.SlidingLog)
	}
	if withID {
		parts |= withRequests
	}
	return parts
}

// withRecord reports whether the answer of c for t is read from or written to the record.
func withRecord(c *store.Call, t *store.Tally) bool {
	switch c.Mode {
	case store.Charge, refuse, undo, store.Refund:
		return c.Request != "" && t.Records != ""
	case store.Reset:
		return t.Records != ""
	}
	return false
}

// pack appends the arguments of decide.lua for c, decided at now in µs or, if now is 0, at Redis' time. Calendar spans are those that
// contain about.
func pack(b []byte, c *store.Call, now int64, about time.Time) []byte {
	b = append(append(b, c.Mode...), 0)
	b = binary.BigEndian.AppendUint64(b, uint64(now))
	for i := range c.Tallies {
		t := &c.Tallies[i]
		flags := byte(0)
		for bit, is := range [...]bool{t.Shadow, t.CountRejected, t.Strikes != nil, withRecord(c, t)} {
			if is {
				flags |= 1 << bit
			}
		}
		b = append(append(b, t.Algorithm...), 0, flags)
		b = binary.BigEndian.AppendUint32(b, uint32(min(t.Cost, 2*store.MaxLimit))) // higher costs are all above every limit
		b = binary.BigEndian.AppendUint32(b, uint32(t.Limit))
		b = binary.BigEndian.AppendUint64(b, uint64(t.Window.Length.Microseconds()))
		b = binary.BigEndian.AppendUint64(b, uint64(t.Stamp))
		a := algorithm.Of(t.Algorithm)
		if a.Burst {
			b = binary.BigEndian.AppendUint32(b, uint32(t.Burst))
		}
		if a.Base {
			b = binary.BigEndian.AppendUint32(b, uint32(t.Base.Limit))
			b = binary.BigEndian.AppendUint64(b, uint64(t.Base.Window.Length.Microseconds()))
			b = packSpan(b, &t.Base.Window, about)
		}
		if a.Calendar {
			b = packSpan(b, &t.Window, about)
		}
		if t.Strikes != nil {
			refusals := t.Refusals
			if c.Mode != store.Reject {
				refusals = 1
			}
			b = binary.BigEndian.AppendUint32(b, uint32(t.Strikes.Limit))
			b = binary.BigEndian.AppendUint64(b, uint64(t.Strikes.Window.Microseconds()))
			b = binary.BigEndian.AppendUint32(b, uint32(refusals))
		}
	}
	return b
}

// packSpan appends the calendar span that contains about, or zeros.
func packSpan(b []byte, w *store.Window, about time.Time) []byte {
	var start, stop int64
	if w.Calendar != nil {
		from, to := w.Calendar.Span(about)
		start, stop = from.UnixMicro(), to.UnixMicro()
	}
	b = binary.BigEndian.AppendUint64(b, uint64(start))
	return binary.BigEndian.AppendUint64(b, uint64(stop))
}

// appendKeys appends the keys of c in the order in which decide.lua reads them.
func appendKeys(args []any, c *store.Call) []any {
	for i := range c.Tallies {
		t := &c.Tallies[i]
		args = append(args, t.Key)
		if algorithm.Of(t.Algorithm).Base {
			args = append(args, t.Base.Key)
		}
		if t.Strikes != nil {
			args = append(args, t.Strikes.Key)
		}
		if withRecord(c, t) {
			args = append(args, t.Records, t.Records+":old")
		}
	}
	return args
}

// runScript runs decide.lua once for all calls, and returns a list with one reply for each.
func runScript(ctx context.Context, rdb redisscript.Client, calls []*asked, now int64, about time.Time) redisscript.Reply {
	var parts scriptParts
	tallies := 0
	args := make([]any, 3, 3+8*len(calls))
	for _, a := range calls {
		c := &a.In
		args = appendKeys(args, c)
		tallies += len(c.Tallies)
		for i := range c.Tallies {
			t := &c.Tallies[i]
			parts |= partsFor(t, withRecord(c, t))
		}
	}
	args[2] = len(args) - 3
	ends := make([]int, len(calls))
	b := make([]byte, 0, 32*len(calls)+64*tallies)
	for i, a := range calls {
		b = pack(b, &a.In, now, about)
		ends[i] = len(b)
	}
	all, packed, from := string(b), make([]string, len(calls)), 0
	for i, a := range calls {
		packed[i], from = all[from:ends[i]], ends[i]
		args = append(args, &packed[i], a.In.Request, a.In.Channel) // a pointer to a string is an argument that needs no memory
	}
	return scriptOf(parts).Do(ctx, rdb, args)
}

// A wrongSpan means that Redis' clock is outside the calendar spans sent: the script did nothing.
type wrongSpan struct{ now time.Time }

func (wrongSpan) Error() string { return "the calendar's spans do not hold Redis' time" }

// decodeCounts decodes the script's reply for n tallies. known flags those that were answered from a record.
func decodeCounts(reply any, n int) (counts []store.Count, known []bool, err error) {
	if err, ok := reply.(error); ok {
		return nil, nil, err
	}
	text, ok := reply.(string)
	if !ok {
		return nil, nil, fmt.Errorf("%w: %v", redisscript.ErrReply, reply)
	}
	const numbers = 4 + 8 + 8 + 8 + 8 + 1
	counts = make([]store.Count, n)
	for i := range counts {
		word, rest, ok := strings.Cut(text, "\x00")
		if word == "clock" && len(rest) == 8 {
			return nil, nil, wrongSpan{time.UnixMicro(int64(binary.BigEndian.Uint64([]byte(rest))))}
		}
		if !ok || len(rest) < numbers {
			return nil, nil, fmt.Errorf("%w: %q", redisscript.ErrReply, text)
		}
		var b [numbers]byte
		text = rest[copy(b[:], rest):]
		c := &counts[i]
		switch reason := store.Reason(word); reason {
		case "admitted":
		case store.RateLimited, store.CostAboveLimit:
			c.Reason = reason
		default:
			return nil, nil, fmt.Errorf("%w: %q", redisscript.ErrReply, word)
		}
		c.Remaining = int(binary.BigEndian.Uint32(b[:]))
		c.RetryAfter = time.Duration(binary.BigEndian.Uint64(b[4:])) * time.Microsecond
		c.ResetAfter = time.Duration(binary.BigEndian.Uint64(b[12:])) * time.Microsecond
		c.Stamp = int64(binary.BigEndian.Uint64(b[20:]))
		c.At = time.UnixMicro(int64(binary.BigEndian.Uint64(b[28:])))
		c.Struck = b[36] == 1
		if b[36] == 2 {
			if known == nil {
				known = make([]bool, n)
			}
			known[i] = true
		}
	}
	if text != "" {
		return nil, nil, fmt.Errorf("%w: %q is left", redisscript.ErrReply, text)
	}
	return counts, known, nil
}
