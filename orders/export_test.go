package orders

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// Replaced makes the fence think that Redis is another one from now on.
func (f *Fence) Replaced() { f.generation.Add(1) }

// NewID makes ids of orders that nobody placed.
func (s *Service) NewID(at time.Time, item int) ID { return s.catalog.Load().ids.newID(at, item) }

// Signed is an id that was changed, as if it had been issued so.
func (s *Service) Signed(id ID) ID { return s.catalog.Load().ids.signed(id) }

// Scripts are the steps of a recovery in Redis, by name.
var Scripts = map[string]*redis.Script{
	"lead": leadScript, "seal": sealScript, "load": loadScript, "open": openScript, "drop": dropScript, "introduce": introduceScript,
}

// LedKeys are the keys of an item in one epoch, and that of its leader.
func (s *Service) LedKeys(sale, item string, epoch int64) []string {
	return append(s.itemKeys(sale, item, epoch), s.leadKey(sale, item))
}

// How long a process promises without a heartbeat, and until nobody waits for it.
const (
	LeaseFor = leaseFor
	Silence  = silence
)

// RunReserve is one call of reserve.lua, with its replies but for the times.
func (s *Service) RunReserve(ctx context.Context, list ...Reservation) ([][]any, error) {
	decoders, err := s.runReserve(ctx, s.itemKeys(list[0].Sale, list[0].Item, list[0].Epoch), list, asBuyer)
	replies := make([][]any, len(decoders))
	for i, d := range decoders {
		replies[i] = append([]any{d.reply[0]}, d.reply[2:]...)
		if d.reply[0] == "reserved" {
			replies[i] = slices.Delete(replies[i], 3, 4)
		}
	}
	return replies, err
}

// PollIdle is the time between two looks of a worker without work.
const PollIdle = pollIdle

// Arrived tells that somebody enqueued a task after a while without.
func (s *Service) Arrived() <-chan struct{} { return s.arrived }

// ReadClock notes what a server says the time is.
func (s *Service) ReadClock(now time.Time) { s.clock.read(now.UnixMilli()) }

// Remembered are the records of the orders that this process remembers, by id.
func (s *Service) Remembered() map[string]string {
	records := make(map[string]string)
	for _, r := range s.ledger.all() {
		records[r.ID.String()] = r.record()
	}
	return records
}
