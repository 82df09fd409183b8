package orders

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/redisclient"
)

// watch reads the sales and makes sure that Redis has them, every second, and whenever a notification reports a change or the watcher
// detects another Redis.
func (s *Service) watch(ctx context.Context) error {
	generation := s.runIDs.Generation()
	return periodic.Woken(ctx, time.Second, s.checkNow, func() {
		if now := s.runIDs.Generation(); now != generation {
			generation = now
			poke(s.replaced)
		}
		if err := s.loadCatalog(ctx); err != nil && ctx.Err() == nil {
			s.opts.Logger.WarnContext(ctx, "sales could not be read; those known stay in force", slog.Any("error", err))
		}
		c := s.catalog.Load()
		items := make([]*cachedItem, 0, len(c.byNumber))
		for _, ci := range c.byNumber {
			items = append(items, ci)
		}
		if err := s.compare(ctx, items...); err != nil {
			if ctx.Err() == nil {
				s.opts.Logger.WarnContext(ctx, "the sales could not be compared with Redis", slog.Any("error", err))
			}
			return
		}
		s.compared.Store(c.loaded)
		if err := s.review(ctx); err != nil && ctx.Err() == nil {
			s.opts.Logger.WarnContext(ctx, "the database could not be compared with what was seen of it", slog.Any("error", err))
		}
	})
}

// compare checks that the server that holds each item now is the one it was loaded into, and that it has the latest definition.
// It updates the definition, and marks the sales of lost items for recovery.
func (s *Service) compare(ctx context.Context, items ...*cachedItem) error {
	generation := s.runIDs.Generation() // read before all queries: a server that is replaced meanwhile raises it
	known, err := s.known(ctx, items)
	if err != nil {
		return err
	}
	for i, ci := range items {
		switch revision := known[i]; {
		case ci.forgottenAt(time.Now()):
			continue
		case revision < 0:
			s.suspectForgotten(ci)
			continue
		case revision < ci.sale.Revision:
			if err := s.configure(ctx, ci); err != nil {
				return err
			}
			ci.forget()
		}
		if ci.generation.Swap(generation) != generation {
			ci.forget()
		}
	}
	return nil
}

// known returns the revision of each item on the server that holds it now, or -1 when that is not the one the item was loaded
// into, the item is being recovered, or its leader in Redis is a later one.
func (s *Service) known(ctx context.Context, items []*cachedItem) ([]int64, error) {
	runs := make(map[string]string) // of each server, asked once
	now := make([]string, len(items))
	for i, ci := range items {
		var err error
		if now[i], err = s.runOf(ctx, ci.keys[0], runs); err != nil {
			return nil, unavailable(err)
		}
	}
	fields := make([]*redis.SliceCmd, len(items))
	leads := make([]*redis.SliceCmd, len(items))
	if _, err := s.base.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, ci := range items {
			fields[i] = p.HMGet(ctx, ci.keys[0], "run", "recovering", "revision")
			leads[i] = p.HMGet(ctx, ci.lead, "epoch", "token")
		}
		return nil
	}); err != nil {
		return nil, unavailable(err)
	}
	revisions := make([]int64, len(items))
	for i, cmd := range fields {
		it := cmd.Val()
		if it[0] != now[i] || it[1] != nil || items[i].sale.behind(leads[i].Val()) {
			revisions[i] = -1
			continue
		}
		d := decoder{reply: it[2:]}
		if revisions[i] = d.int64(); d.err != nil {
			return nil, d.err
		}
	}
	return revisions, nil
}

// runOf returns the run id of the server that holds a key. It asks each server once and stores the answer in runs.
func (s *Service) runOf(ctx context.Context, key string, runs map[string]string) (string, error) {
	var server redis.Cmdable = s.base
	addr := ""
	if cluster, ok := s.base.(*redis.ClusterClient); ok {
		master, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			return "", err
		}
		server, addr = master, master.Options().Addr
	}
	if run, asked := runs[addr]; asked {
		return run, nil
	}
	run, err := redisclient.RunID(ctx, server)
	runs[addr] = run
	return run, err
}

// verified returns the watcher's generation once Redis is verified to be the server that the item was loaded into, otherwise
// ErrRecovering.
func (s *Service) verified(ctx context.Context, ci *cachedItem) (generation int64, err error) {
	generation = s.runIDs.Generation()
	if ci.generation.Load() == generation {
		return generation, nil
	}
	_, err, _ = s.flights.Do("compare "+ci.keys[0], func() (any, error) {
		return nil, s.within(ctx, func(ctx context.Context) error { return s.compare(ctx, ci) })
	})
	generation = ci.generation.Load()
	if err == nil && generation != s.runIDs.Generation() {
		err = ErrRecovering
	}
	return generation, err
}

// suspectForgotten schedules a check of whether Redis still has the item, which recovers the sale if it does not.
func (s *Service) suspectForgotten(ci *cachedItem) { s.suspectSale(ci.sale.ID) }

func (s *Service) suspectSale(sale string) {
	if _, waiting := s.suspects.LoadOrStore(sale, struct{}{}); !waiting {
		poke(s.suspected)
	}
}
