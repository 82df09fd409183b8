package login

import (
	"context"
	"embed"
	"encoding/binary"
	"fmt"

	"github.com/tidegate/tidegate/internal/batch"
	"github.com/tidegate/tidegate/internal/redisscript"
)

//go:embed lua/*.lua
var files embed.FS

var (
	welcomeScript = redisscript.New("login welcome", redisscript.Join(files, "lua/welcome"))
	rulesScript   = redisscript.New("login run", redisscript.Join(files, "lua/prelude", "lua/rules", "lua/run"))
	lookScript    = redisscript.New("login look",
		`local t = redis.call('TIME') return { t[1] * 1000000 + t[2], redis.call('MGET', unpack(KEYS)) }`)
	dropScript = redisscript.New("login drop", `return redis.call('DEL', unpack(KEYS))`)
)

const (
	batchSize  = 96 // attempts in one script: take Redis about half a millisecond
	maxSenders = 3  // concurrent scripts: the next ones are packed while Redis works
)

// A RedisStore keeps states in Redis 6.2 or newer, all in one slot, because an attempt is counted in several of them atomically.
// Concurrent calls share a script. Make it with NewRedisStore.
type RedisStore struct {
	rdb     redisscript.Client
	now     func() int64 // µs; nil means Redis' own clock; set only in tests
	batches *batch.Batcher[*call, reply]
}

// NewRedisStore returns a store on rdb, which the caller closes. It sends nothing. Create the client with the settings of
// redisclient.ParseURL.
func NewRedisStore(rdb redisscript.Client) *RedisStore {
	s := &RedisStore{rdb: rdb}
	s.batches = batch.New(batchSize, maxSenders, s.run)
	return s
}

func (s *RedisStore) do(ctx context.Context, c *call) (reply, error) {
	re, err := s.batches.Do(ctx, c)
	if err != nil {
		return re, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return re, nil
}

type asked = batch.Call[*call, reply]

// run decides calls in batches, one for each set of rules.
func (s *RedisStore) run(ctx context.Context, calls []*asked) {
	for len(calls) > 0 {
		rs := calls[0].In.rules
		var simple, others, later []*asked
		for _, a := range calls {
			switch {
			case a.In.rules != rs:
				later = append(later, a)
			case a.In.simple():
				simple = append(simple, a)
			default:
				others = append(others, a)
			}
		}
		others = append(others, s.runWelcome(ctx, rs, simple)...)
		s.runRules(ctx, rs, others)
		calls = later
	}
}

// simple reports whether welcome.lua can be tried first.
func (c *call) simple() bool {
	return c.op == opReserve && !c.solved && c.keys[byDevice] == "" && c.keys[byPair] != ""
}

// appendKeys appends the keys of c in the order in which the scripts read them.
func (c *call) appendKeys(keys []string) []string {
	for _, key := range c.keys {
		if key != "" {
			keys = append(keys, key)
		}
	}
	if c.record != "" {
		keys = append(keys, c.record)
	}
	return keys
}

// time returns the packed time argument of the scripts.
func (s *RedisStore) time() []byte {
	if s.now == nil {
		return make([]byte, 8)
	}
	return binary.BigEndian.AppendUint64(nil, uint64(s.now()))
}

// runWelcome reserves the calls that no rule can affect, and returns the others.
func (s *RedisStore) runWelcome(ctx context.Context, rs *ruleSet, calls []*asked) (others []*asked) {
	if len(calls) == 0 {
		return nil
	}
	var keys []string
	args := append(make([]any, 0, 4+len(calls)), append(s.time(), rs.welcome...), rs.lives[byName], rs.lives[byIP], rs.lives[byNetwork])
	for _, a := range calls {
		var flags byte
		for bit, is := range [...]bool{a.In.keys[byNetwork] != "", a.In.record != ""} {
			if is {
				flags |= 1 << bit
			}
		}
		keys = a.In.appendKeys(keys)
		args = append(args, append([]byte{flags}, a.In.name[:]...))
	}
	replies := welcomeScript.Run(ctx, s.rdb, keys, args...)
	now := replies.Int()
	_ = replies.Expect(len(calls))
	for _, a := range calls {
		failures, ok := replies.Next().(int64)
		if a.Err = replies.Err(); a.Err != nil {
			continue
		}
		if !ok {
			others = append(others, a)
			continue
		}
		a.Out = reply{evaluation: evaluation{action: allow, rule: -1, shadow: -1}, at: now, failures: failures}
	}
	return others
}

func (s *RedisStore) runRules(ctx context.Context, rs *ruleSet, calls []*asked) {
	if len(calls) == 0 {
		return
	}
	var keys []string
	args := append(make([]any, 0, 1+len(calls)), append(s.time(), rs.packed...))
	for _, a := range calls {
		keys = a.In.appendKeys(keys)
		args = append(args, a.In.pack())
	}
	replies := rulesScript.Run(ctx, s.rdb, keys, args...)
	_ = replies.Expect(len(calls))
	for _, a := range calls {
		value := replies.Next()
		if a.Err = replies.Err(); a.Err == nil {
			a.Out, a.Err = decodeReply(value, a.In)
		}
	}
}

func (s *RedisStore) look(ctx context.Context, keys [kinds]string) (states [kinds]*state, now int64, err error) {
	reply := lookScript.Run(ctx, s.rdb, present(keys))
	now = reply.Int()
	values := reply.List()
	for k, key := range keys {
		if key == "" {
			continue
		}
		states[k] = &state{}
		if text, ok := values.Next().(string); ok {
			if s, err := decodeState(kind(k), text); err == nil { // otherwise it counts as empty, as in the scripts
				states[k] = s
			}
		}
	}
	if err := values.Err(); err != nil {
		return states, 0, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if s.now != nil {
		now = s.now()
	}
	return states, now, nil
}

func (s *RedisStore) forget(ctx context.Context, keys [kinds]string) error {
	if err := dropScript.Run(ctx, s.rdb, present(keys)).Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

func present(keys [kinds]string) (there []string) {
	for _, key := range keys {
		if key != "" {
			there = append(there, key)
		}
	}
	return there
}
