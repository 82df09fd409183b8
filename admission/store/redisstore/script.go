package redisstore

import (
	"context"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/internal/redisscript"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// A scriptParts is the set of parts that a script needs besides prelude.lua and decide.lua: one bit for each file of luaParts.
type scriptParts uint8

// luaParts are in the order in which they are joined: two_stage uses two parts before it.
var luaParts = [...]string{"sliding_log", "sliding_counter", "fixed_window", "gcra", "two_stage", "strikes", "requests"}

const (
	withLog scriptParts = 1 << iota
	withCounter
	withFixed
	withGCRA
	withBase
	withStrikes
	withRequests
)

var (
	scriptsMu sync.Mutex
	scripts   = map[scriptParts]redisscript.Script{} // guarded by scriptsMu
)

// scriptOf returns the script decide with the given parts: short scripts run faster.
func scriptOf(parts scriptParts) redisscript.Script {
	scriptsMu.Lock()
	defer scriptsMu.Unlock()
	if s, ok := scripts[parts]; ok {
		return s
	}
	names := []string{"prelude"}
	for i, name := range luaParts {
		if parts&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	var b strings.Builder
	b.WriteString(redisscript.Try)
	for _, name := range append(names, "decide") {
		text, err := luaFiles.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // the files are embedded and tested
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	s := redisscript.New(b.String(), "GET", "GETRANGE", "HGET", "HKEYS", "HLEN", "PTTL", "STRLEN")
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
	var parts scriptParts
	switch t.Algorithm {
	case store.SlidingCounter:
		parts = withCounter
	case store.FixedWindow:
		parts = withFixed
	case store.GCRA:
		parts = withGCRA
	case store.TwoStage:
		parts = withBase | withFixed | withLog
	default:
		parts = withLog
	}
	if t.Strikes != nil {
		parts |= withStrikes | withLog
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
		switch t.Algorithm {
		case store.FixedWindow:
			b = packSpan(b, &t.Window, about)
		case store.GCRA:
			b = binary.BigEndian.AppendUint32(b, uint32(t.Burst))
		case store.TwoStage:
			b = binary.BigEndian.AppendUint32(b, uint32(t.Base.Limit))
			b = binary.BigEndian.AppendUint64(b, uint64(t.Base.Window.Length.Microseconds()))
			b = packSpan(b, &t.Base.Window, about)
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
		if t.Algorithm == store.TwoStage {
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

// runScript runs decide.lua once for all calls and returns one reply for each.
func runScript(ctx context.Context, rdb redisscript.Client, calls []*asked, now int64, about time.Time) ([]any, error) {
	var parts scriptParts
	args := make([]any, 3, 3+8*len(calls))
	for _, a := range calls {
		c := &a.In
		args = appendKeys(args, c)
		for i := range c.Tallies {
			t := &c.Tallies[i]
			parts |= partsFor(t, withRecord(c, t))
		}
	}
	args[2] = len(args) - 3
	for _, a := range calls {
		c := &a.In
		args = append(args, pack(make([]byte, 0, 64*len(c.Tallies)), c, now, about), c.Request, c.Channel)
	}
	reply, err := scriptOf(parts).Do(ctx, rdb, args)
	switch {
	case err != nil:
		return nil, err
	case len(reply) != len(calls):
		return nil, fmt.Errorf("%w: %d replies to %d calls", errReply, len(reply), len(calls))
	}
	return reply, nil
}

var errReply = errors.New("unexpected reply of the script")

// A wrongSpan means that Redis' clock is outside the calendar spans sent: the script did nothing.
type wrongSpan struct{ now time.Time }

func (wrongSpan) Error() string { return "the calendar's spans do not hold Redis' time" }

// decodeCounts decodes the script's reply for n tallies. known marks those that were answered from a record.
func decodeCounts(reply any, n int) (counts []store.Count, known []bool, err error) {
	if err, ok := reply.(error); ok {
		return nil, nil, err
	}
	text, ok := reply.(string)
	if !ok {
		return nil, nil, fmt.Errorf("%w: %v", errReply, reply)
	}
	const numbers = 4 + 8 + 8 + 8 + 8 + 1
	counts = make([]store.Count, n)
	for i := range counts {
		word, rest, ok := strings.Cut(text, "\x00")
		if word == "clock" && len(rest) == 8 {
			return nil, nil, wrongSpan{time.UnixMicro(int64(binary.BigEndian.Uint64([]byte(rest))))}
		}
		if !ok || len(rest) < numbers {
			return nil, nil, fmt.Errorf("%w: %q", errReply, text)
		}
		var b [numbers]byte
		text = rest[copy(b[:], rest):]
		c := &counts[i]
		switch reason := store.Reason(word); reason {
		case "admitted":
		case store.RateLimited, store.CostAboveLimit:
			c.Reason = reason
		default:
			return nil, nil, fmt.Errorf("%w: %q", errReply, word)
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
		return nil, nil, fmt.Errorf("%w: %q is left", errReply, text)
	}
	return counts, known, nil
}
