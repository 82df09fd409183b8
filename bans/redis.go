package bans

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/internal/redisscript"
)

var (
	//go:embed bans.lua
	bansLua string

	bansScript = redisscript.New(redisscript.Try+bansLua, "HEXISTS", "HGET", "HGETALL", "HLEN", "ZCARD", "ZRANGE", "ZRANGEBYSCORE", "ZSCORE")
)

// A RedisStore keeps bans in Redis 6.2 or newer. Make it with NewRedisStore; it is safe for concurrent use.
type RedisStore struct {
	rdb  redisscript.Client
	now  func() int64 // µs; nil means Redis' own clock; set only in tests
	most int          // 0 means Max
}

var _ Store = (*RedisStore)(nil)

// NewRedisStore returns a store on rdb, which the caller closes. It sends nothing. Create the client with redisclient.Open.
func NewRedisStore(rdb redisscript.Client) *RedisStore { return &RedisStore{rdb: rdb} }

// Listen implements Store. On a Client without Pub/Sub it only waits. The error is the connection's.
func (s *RedisStore) Listen(ctx context.Context, key string, changed func(string)) error {
	if err := redisscript.Listen(ctx, redisscript.Unwrap(s.rdb), key, changed); err != nil {
		return fmt.Errorf("bans: %w", err)
	}
	return nil
}

// Exchange implements Store. It returns the client's errors, and ctx's when that ends.
func (s *RedisStore) Exchange(ctx context.Context, key string, news News) (State, error) {
	if err := ctx.Err(); err != nil {
		return State{}, err
	}
	return redisscript.Within(ctx, func() (State, error) { return s.exchange(ctx, key, &news) })
}

func (s *RedisStore) exchange(ctx context.Context, key string, news *News) (State, error) {
	now := int64(0)
	if s.now != nil {
		now = s.now()
	}
	events := 0
	if news.History {
		events = eventsPage
	}
	args := []any{
		now, key, news.Process, news.Since, rand.Text(), cmp.Or(s.most, maxBans), page, events, maxEvents,
		len(news.Put), len(news.Lift), len(news.Restore), len(news.Logged), len(news.Ask),
	}
	memory := memoryOfBans.Microseconds()
	for i := range news.Put {
		o := &news.Put[i]
		args = append(args, o.key(), o.Reason, o.Rule, o.For.Microseconds(), o.Growing, o.remembered().Microseconds())
	}
	for _, t := range news.Lift {
		args = append(args, t.key(), memory)
	}
	for i := range news.Restore {
		b := &news.Restore[i]
		args = append(args, b.key(), b.Reason, b.Rule, b.Since.UnixMicro(), b.Until.UnixMicro(), b.Times, memory)
	}
	for _, id := range news.Logged {
		args = append(args, id)
	}
	for _, t := range news.Ask {
		args = append(args, t.key())
	}
	keys := []string{key + ":state", key + ":known", key + ":changes", key + ":ends", key + ":events", key + ":alive"}
	reply, err := bansScript.Run(ctx, s.rdb, keys, args...)
	if err != nil {
		return State{}, err
	}
	return decodeBans(reply)
}

// A replyReader decodes the script's reply value by value, and records whether a value had the wrong type.
type replyReader struct {
	values []any
	wrong  bool
}

func (r *replyReader) next() any {
	if len(r.values) == 0 {
		r.wrong = true
		return nil
	}
	v := r.values[0]
	r.values = r.values[1:]
	return v
}

func (r *replyReader) text() string {
	s, ok := r.next().(string)
	r.wrong = r.wrong || !ok
	return s
}

func (r *replyReader) number() int64 {
	n, ok := r.next().(int64)
	r.wrong = r.wrong || !ok
	return n
}

func (r *replyReader) time() time.Time { return time.UnixMicro(r.number()) }

func (r *replyReader) list() *replyReader {
	values, ok := r.next().([]any)
	r.wrong = r.wrong || !ok
	return &replyReader{values: values}
}

func (r *replyReader) ban() Ban {
	return Ban{
		Target: parseKey(r.text()), Reason: r.text(), Rule: r.text(),
		Since: r.time(), Until: r.time(), Times: int(r.number()),
	}
}

var errReply = errors.New("bans: unexpected reply of the script")

func decodeBans(reply []any) (State, error) {
	r := &replyReader{values: reply}
	state := State{
		Origin: r.text(), At: r.time(), Cursor: r.number(), Processes: int(r.number()), More: r.number() == 1, Lifted: int(r.number()),
	}
	bans, events := r.list(), r.list()
	for len(bans.values) > 0 && !bans.wrong {
		b := bans.ban()
		b.Change = bans.number()
		state.Bans = append(state.Bans, b)
	}
	for len(events.values) > 0 && !events.wrong {
		e := Event{ID: events.text(), At: events.time(), Lifted: events.number() == 1}
		e.Ban = events.ban()
		state.Events = append(state.Events, e)
	}
	if r.wrong || bans.wrong || events.wrong || len(r.values) > 0 {
		return State{}, fmt.Errorf("%w: %.200q", errReply, fmt.Sprint(reply...))
	}
	return state, nil
}
