package orders

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// NewService returns a service without any I/O.
var NewService = newService

// Commits marks the process as committing for an hour, for long tests without a worker.
func (s *Service) Commits() { s.commits.Beat(time.Hour) }

// RunWorker runs the worker of a process that commits nothing.
func (s *Service) RunWorker(ctx context.Context) error { return s.worker.run(ctx) }

// CheckDurability is a part of Open.
func (s *Service) CheckDurability(ctx context.Context) error {
	return CheckDurability(ctx, s.base, s.opts.Durability, s.opts.Logger)
}

// ReviewSchema compares the schema, as a process does once a minute.
func (s *Service) ReviewSchema(ctx context.Context) { s.reviewSchema(ctx, schemaInterval) }

// Logger is that of the options.
func (s *Service) Logger() *slog.Logger { return s.opts.Logger }

// NewID makes ids without orders.
func (s *Service) NewID(at time.Time, item int) ID { return s.catalog.Load().ids.newID(at, item) }

// Signed returns a changed id with a valid MAC.
func (s *Service) Signed(id ID) ID { return s.catalog.Load().ids.signed(id) }

// Scripts are the scripts of the steps of a recovery, by name.
var Scripts = map[string]*redis.Script{
	"lead": leadScript, "seal": sealScript, "load": loadScript, "open": openScript, "drop": dropScript, "introduce": introduceScript,
}

// LedKeys returns the keys of an item in one epoch, and that of its leader.
func (s *Service) LedKeys(sale, item string, epoch int64) []string {
	return append(s.itemKeys(sale, item, epoch), s.leadKey(sale, item))
}

// RunReserve runs reserve.lua once, and returns its replies without the times.
func (s *Service) RunReserve(ctx context.Context, list ...Reservation) ([][]any, error) {
	decoders, err := s.runReserve(ctx, s.inEpoch(list[0].Sale, list[0].Item, list[0].Epoch), list, modeNew)
	replies := make([][]any, len(decoders))
	for i, d := range decoders {
		replies[i] = d.reply
		if d.reply[0] == "reserved" {
			replies[i] = slices.Delete(replies[i], 3, 4)
		}
	}
	return replies, err
}

// Arrived returns the channel that receives when a task was enqueued after a pause.
func (s *Service) Arrived() <-chan struct{} { return s.arrived }

// ReadClock records a server's time.
func (s *Service) ReadClock(now time.Time) { s.clock.read(now.UnixMilli()) }

// CommitsAgain reports whether this process would commit a committed order again if the database lost it.
func (s *Service) CommitsAgain(id ID) bool {
	_, ok := s.keeper.ledger.committed(id)
	return ok
}

// Remembered returns the records of the orders that this process remembers, by id.
func (s *Service) Remembered() map[string]string {
	records := make(map[string]string)
	for _, r := range s.keeper.ledger.all() {
		records[r.ID.String()] = r.record()
	}
	return records
}

// SuspectDatabase makes the process act as if the database were another server.
func (s *Service) SuspectDatabase() {
	s.regressions.servers.Add(1)
	poke(s.checkNow)
}
