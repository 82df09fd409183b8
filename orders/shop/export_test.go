package shop

import (
	"context"
	"log/slog"
	"time"

	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop/internal/audit"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/lua"
	"github.com/tidegate/tidegate/orders/shop/internal/reserve"
)

// NewService returns a service without any I/O.
var NewService = newService

// Commits marks the process as committing for an hour, for long tests without a worker.
func (s *Service) Commits() { s.core.Commits.Beat(time.Hour) }

// RunWorker runs the worker of a process that commits nothing.
func (s *Service) RunWorker(ctx context.Context) error { return s.worker.Run(ctx) }

// CheckDurability is a part of Open.
func (s *Service) CheckDurability(ctx context.Context) error {
	return CheckDurability(ctx, s.core.Base, s.opts.Durability, s.core.Logger)
}

// ReviewSchema compares the schema, as a process does once a minute.
func (s *Service) ReviewSchema(ctx context.Context) {
	s.verifier.ReviewSchema(ctx, audit.SchemaInterval)
}

// Logger is that of the options.
func (s *Service) Logger() *slog.Logger { return s.core.Logger }

// NewID makes ids without orders.
func (s *Service) NewID(at time.Time, item int) orders.ID {
	return s.sales.Catalog.Load().IDs.New(at, item)
}

// Scripts are the scripts of the steps of a recovery, by name.
var Scripts = map[string]*redisscript.Script{
	"lead": lua.Lead, "seal": lua.Seal, "load": lua.Load, "open": lua.Open, "drop": lua.Drop, "introduce": lua.Introduce,
}

// LedKeys returns the keys of an item in one epoch, and that of its leader.
func (s *Service) LedKeys(sale, item string, epoch int64) []string {
	return append(s.core.ItemKeys(sale, item, epoch), s.core.LeadKey(sale, item))
}

// RunReserve runs reserve.lua once, and returns its replies without the times.
func (s *Service) RunReserve(ctx context.Context, list ...orders.Reservation) ([][]any, error) {
	lists, err := s.reserver.RunReserve(ctx, s.sales.InEpoch(list[0].Sale, list[0].Item, list[0].Epoch), list, reserve.ModeNew)
	replies := make([][]any, len(lists))
	for i, r := range lists {
		replies[i] = append(replies[i], r.Word, r.Free)
		for r.Len() > 0 {
			replies[i] = append(replies[i], r.Next())
		}
	}
	return replies, err
}

// ReadClock records a server's time.
func (s *Service) ReadClock(now time.Time) { s.core.Clock.Read(now.UnixMilli()) }

// CommitsAgain reports whether this process would commit a committed order again if the database lost it.
func (s *Service) CommitsAgain(id orders.ID) bool {
	_, ok := s.keeper.Ledger.Committed(id)
	return ok
}

// Remembered returns the records of the orders that this process remembers, by id.
func (s *Service) Remembered() map[string]string {
	records := make(map[string]string)
	for _, r := range s.keeper.Ledger.All() {
		records[r.ID.String()] = r.Record()
	}
	return records
}

// SuspectDatabase makes the process act as if the database were another server.
func (s *Service) SuspectDatabase() {
	s.regressions.Servers.Add(1)
	core.Poke(s.core.CheckNow)
}
