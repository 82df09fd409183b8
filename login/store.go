package login

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/tidegate/tidegate/internal/redisscript"
)

// A Store keeps the counts of failures: a RedisStore or a MemoryStore. Both pass the same tests, and are safe for concurrent use.
type Store interface {
	// do executes c. It returns when ctx ends; then it is unknown whether anything was counted.
	do(ctx context.Context, c *call) (reply, error)
	// look returns the states of keys as last written, by kind, and the time of the store in µs. It changes nothing.
	look(ctx context.Context, keys [kinds]string) (states [kinds]*state, now int64, err error)
	// forget drops states.
	forget(ctx context.Context, keys [kinds]string) error
}

// pack encodes c for the script; run.lua decodes it.
func (c *call) pack() []byte {
	var bits, flags byte
	for k, key := range c.keys {
		if key != "" {
			bits |= 1 << k
		}
	}
	for bit, is := range [...]bool{c.device, c.solved, c.record != ""} {
		if is {
			flags |= 1 << bit
		}
	}
	b := append(make([]byte, 0, 18), byte(c.op), bits, flags)
	b = append(b, c.name[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(c.at))
	return append(b, c.result)
}

// decodeReply decodes the script's reply to c.
func decodeReply(value any, c *call) (re reply, err error) {
	text, ok := value.(string)
	const fixed, each = 1 + 1 + 4 + 4 + 8 + 8 + 4 + 2, 4 + 8 + 4
	be, b := binary.BigEndian, []byte(text)
	if !ok || len(b) < fixed || len(b) != fixed+each*int(be.Uint16(b[fixed-2:])) {
		return re, fmt.Errorf("%w: %.80q", redisscript.ErrReply, value)
	}
	re = reply{
		evaluation: evaluation{action: action(b[0]), held: b[1]&1 != 0, left: int64(be.Uint64(b[10:]))},
		device:     b[1]&2 != 0, known: b[1]&4 != 0, at: int64(be.Uint64(b[18:])), failures: int64(be.Uint32(b[26:])),
	}
	if c.op == opSettle {
		re.outcome, re.action = outcome(re.action), allow
	}
	if re.action > deny || re.outcome > settledLate {
		return re, fmt.Errorf("%w: action %d", redisscript.ErrReply, b[0])
	}
	ruleOf := func(id uint32) int {
		i := c.rules.index(id)
		if i < 0 && id != 0 && !re.known { // a recorded answer may refer to older rules
			err = fmt.Errorf("%w: no rule has the id %d", redisscript.ErrReply, id)
		}
		return i
	}
	re.rule, re.shadow = ruleOf(be.Uint32(b[2:])), ruleOf(be.Uint32(b[6:]))
	for b = b[fixed:]; len(b) > 0; b = b[each:] {
		id := be.Uint32(b)
		if t := (penalty{ruleOf(id), int64(be.Uint64(b[4:])), int64(be.Uint32(b[12:]))}); t.rule >= 0 {
			re.penalties = append(re.penalties, t)
		}
	}
	return re, err
}

// decodeState decodes a state as written by the script.
func decodeState(k kind, text string) (*state, error) {
	const dataSize, unitSize, unitSizeIP = 4 + 8 + 4, 8, 8 + len(nameTag{}) + 1
	be, b, s, size := binary.BigEndian, []byte(text), &state{}, unitSize
	if k == byIP {
		size = unitSizeIP
	}
	if len(b) == 0 || len(b) < 1+int(b[0])*dataSize || (len(b)-1-int(b[0])*dataSize)%size != 0 {
		return nil, fmt.Errorf("%w: a state of %d bytes", redisscript.ErrReply, len(text))
	}
	n := int(b[0])
	b = b[1:]
	for range n {
		s.data = append(s.data, ruleData{be.Uint32(b), int64(be.Uint64(b[4:])), int64(be.Uint32(b[12:]))})
		b = b[dataSize:]
	}
	for ; len(b) > 0; b = b[size:] {
		at := be.Uint64(b)
		u := unit{at: int64(at / 2), pending: at%2 == 1}
		if k == byIP {
			u.name, u.owes = nameTag(b[8:]), b[size-1] == 1
		}
		s.units = append(s.units, u)
	}
	return s, nil
}
