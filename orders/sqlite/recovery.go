package sqlite

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/liveness"
	"github.com/tidegate/tidegate/orders/internal/sqlstore"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// EndHandOver waits for the running commit, as every writer does. No member is ever silent: there is one process.
func (s *Store) EndHandOver(ctx context.Context, lead storage.Lead, _ []liveness.Member) error {
	return sqlstore.RaiseFloor(ctx, &s.common, lead, func(sqldb.Conn) error { return nil })
}

// processes is the running processes and their acknowledgements. There is only this process, so it is kept in memory.
type processes struct {
	mu     sync.Mutex
	beats  map[string]int
	selves map[string]liveness.Self
	acks   map[string]map[string]int64 // by process and sale
}

// read returns the process list, and which members have acknowledged an epoch of a sale.
func (r *processes) read(sale string, epoch int64) liveness.ProcessList {
	var list liveness.ProcessList
	for process, beats := range r.beats {
		self := r.selves[process]
		list.Members = append(list.Members, liveness.Member{
			Process: process, Pulse: strconv.Itoa(beats), Acknowledged: sale != "" && r.acks[process][sale] == epoch, Host: self.Host,
			Program: self.Program, Commits: self.Commits,
		})
	}
	return list
}

// Heartbeat counts a heartbeat of the process.
func (s *Store) Heartbeat(_ context.Context, self liveness.Self) (liveness.ProcessList, error) {
	s.processes.mu.Lock()
	defer s.processes.mu.Unlock()
	s.processes.beats[self.Process]++
	s.processes.selves[self.Process] = self
	list := s.processes.read("", 0)
	list.Clock = time.Now()
	return list, nil
}

// Leave removes the process from the process list.
func (s *Store) Leave(_ context.Context, process string) error {
	s.processes.mu.Lock()
	defer s.processes.mu.Unlock()
	delete(s.processes.beats, process)
	delete(s.processes.selves, process)
	delete(s.processes.acks, process)
	return nil
}

// Acknowledge stores an acknowledgement, and the late orders.
func (s *Store) Acknowledge(ctx context.Context, sale string, epoch int64, process string, late []orders.Reservation) error {
	if err := sqlstore.AddLate(ctx, &s.common, sale, late, func(sqldb.Conn) error { return nil }); err != nil {
		return err
	}
	s.processes.mu.Lock()
	defer s.processes.mu.Unlock()
	if s.processes.acks[process] == nil {
		s.processes.acks[process] = make(map[string]int64)
	}
	s.processes.acks[process][sale] = epoch
	return nil
}

// HandOver reads the sale, and then the process list.
func (s *Store) HandOver(ctx context.Context, lead storage.Lead) (liveness.ProcessList, error) {
	if err := sqlstore.Leads(ctx, &s.common, lead); err != nil {
		return liveness.ProcessList{}, err
	}
	s.processes.mu.Lock()
	defer s.processes.mu.Unlock()
	return s.processes.read(lead.Sale, lead.Epoch), nil
}
