package bans

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"fmt"

	"github.com/tidegate/tidegate/internal/pubsub"
	"github.com/tidegate/tidegate/internal/redisscript"
)

var (
	//go:embed bans.lua
	files embed.FS

	bansScript = redisscript.New("bans exchange", redisscript.Join(files, "try", "bans"), "HEXISTS", "HGET", "HGETALL", "HLEN", "ZCARD",
		"ZRANGE", "ZRANGEBYSCORE", "ZSCORE")
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
	if err := pubsub.Listen(ctx, pubsub.Of(redisscript.Unwrap(s.rdb)), []string{key}, changed); err != nil {
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
	return decodeBans(bansScript.Run(ctx, s.rdb, keys, args...))
}

func decodeBan(r *redisscript.Reply) Ban {
	return Ban{
		Target: parseKey(r.Text()), Reason: r.Text(), Rule: r.Text(),
		Since: r.Time(), Until: r.Time(), Times: int(r.Int()),
	}
}

func decodeBans(r redisscript.Reply) (State, error) {
	state := State{
		Origin: r.Text(), At: r.Time(), Cursor: r.Int(), Processes: int(r.Int()), More: r.Int() == 1, Lifted: int(r.Int()),
	}
	bans, events := r.List(), r.List()
	for bans.Len() > 0 && bans.Err() == nil {
		b := decodeBan(&bans)
		b.Change = bans.Int()
		state.Bans = append(state.Bans, b)
	}
	for events.Len() > 0 && events.Err() == nil {
		e := Event{ID: events.Text(), At: events.Time(), Lifted: events.Int() == 1}
		e.Ban = decodeBan(&events)
		state.Events = append(state.Events, e)
	}
	if err := cmp.Or(r.Expect(0), bans.Err(), events.Err()); err != nil {
		return State{}, err
	}
	return state, nil
}
