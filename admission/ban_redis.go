package admission

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/bans.lua
	bansLua string

	bansHash = redis.NewScript(bansLua).Hash()
)

// Exchange implements Store. It returns the client's errors, and ctx's when that ends.
func (s *RedisStore) Exchange(ctx context.Context, key string, news BanNews) (BanState, error) {
	if err := ctx.Err(); err != nil {
		return BanState{}, err
	}
	return within(ctx, func() (BanState, error) { return s.exchange(ctx, key, &news) })
}

func (s *RedisStore) exchange(ctx context.Context, key string, news *BanNews) (BanState, error) {
	now := int64(0)
	if s.now != nil {
		now = s.now()
	}
	most := s.maxBans
	if most == 0 {
		most = MaxBans
	}
	events := 0
	if news.History {
		events = banEventsPage
	}
	args := []any{
		"evalsha", bansHash, 6, key + ":state", key + ":known", key + ":changes", key + ":ends", key + ":events", key + ":alive",
		now, key, news.Process, news.Since, rand.Text(), most, banPage, events, maxBanEvents,
		len(news.Put), len(news.Lift), len(news.Restore), len(news.Logged), len(news.Ask),
	}
	memory := banMemory.Microseconds()
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
	reply, err := send(ctx, s.rdb, args)
	if redis.HasErrorPrefix(err, "NOSCRIPT") { // the script did not run: Redis restarted or failed over
		args[0], args[1] = "eval", bansLua
		reply, err = send(ctx, s.rdb, args)
	}
	if err != nil {
		return BanState{}, err
	}
	return decodeBans(reply)
}

// A banReply decodes the script's reply value by value, and records whether a value had the wrong type.
type banReply struct {
	values []any
	wrong  bool
}

func (r *banReply) next() any {
	if len(r.values) == 0 {
		r.wrong = true
		return nil
	}
	v := r.values[0]
	r.values = r.values[1:]
	return v
}

func (r *banReply) text() string {
	s, ok := r.next().(string)
	r.wrong = r.wrong || !ok
	return s
}

func (r *banReply) number() int64 {
	n, ok := r.next().(int64)
	r.wrong = r.wrong || !ok
	return n
}

func (r *banReply) time() time.Time { return time.UnixMicro(r.number()) }

func (r *banReply) list() *banReply {
	values, ok := r.next().([]any)
	r.wrong = r.wrong || !ok
	return &banReply{values: values}
}

func (r *banReply) ban() Ban {
	return Ban{
		BanTarget: parseBanKey(r.text()), Reason: r.text(), Rule: r.text(),
		Since: r.time(), Until: r.time(), Times: int(r.number()),
	}
}

func decodeBans(reply []any) (BanState, error) {
	r := &banReply{values: reply}
	state := BanState{
		Origin: r.text(), At: r.time(), Cursor: r.number(), Processes: int(r.number()), More: r.number() == 1, Lifted: int(r.number()),
	}
	bans, events := r.list(), r.list()
	for len(bans.values) > 0 && !bans.wrong {
		b := bans.ban()
		b.Change = bans.number()
		state.Bans = append(state.Bans, b)
	}
	for len(events.values) > 0 && !events.wrong {
		e := BanEvent{ID: events.text(), At: events.time(), Lifted: events.number() == 1}
		e.Ban = events.ban()
		state.Events = append(state.Events, e)
	}
	if r.wrong || bans.wrong || events.wrong || len(r.values) > 0 {
		return BanState{}, fmt.Errorf("%w: bans: %.200q", errReply, fmt.Sprint(reply...))
	}
	return state, nil
}
