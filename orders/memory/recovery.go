package memory

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/liveness"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// RaiseEpoch raises the epoch, and not the floor.
func (s *Store) RaiseEpoch(ctx context.Context, seen int64, lead storage.Lead) error {
	return s.write(ctx, "RaiseEpoch", func(st *state) error {
		sale, there := st.sales.get(lead.Sale)
		if !there || sale.Epoch != seen {
			return storage.EpochMoved(lead.Sale, seen)
		}
		sale.Epoch, sale.EpochToken = lead.Epoch, lead.Token
		st.putSale(sale)
		return nil
	})
}

// leads returns the sale, or ErrConflict unless its epoch is the leader's.
func (st *state) leads(lead storage.Lead) (orders.Sale, error) {
	sale, there := st.sales.get(lead.Sale)
	if !there || sale.Epoch != lead.Epoch || sale.EpochToken != lead.Token {
		return sale, storage.EpochOver(lead)
	}
	return sale, nil
}

// EndHandOver finds no commit running. A process that has sent a heartbeat since it was found silent stays on the process list.
func (s *Store) EndHandOver(ctx context.Context, lead storage.Lead, silent []liveness.Member) error {
	return s.write(ctx, "EndHandOver", func(st *state) error {
		sale, err := st.leads(lead)
		if err != nil {
			return err
		}
		sale.EpochFloor = sale.Epoch
		st.putSale(sale)
		for a := range st.acks {
			if a.sale == lead.Sale && a.epoch <= lead.Epoch {
				delete(st.acks, a)
			}
		}
		for _, m := range silent {
			if p, there := st.processes.get(m.Process); there && p.pulse() == m.Pulse {
				st.processes.remove(m.Process)
			}
		}
		return nil
	})
}

func (p process) pulse() string { return strconv.Itoa(p.beats) }

// list returns the process list, and which members have acknowledged an epoch of a sale.
func (db *database) list(sale string, epoch int64) liveness.ProcessList {
	list := liveness.ProcessList{Server: fmt.Sprintf("%s/%d", db.place, db.starts)}
	for name, p := range db.state.processes.all() {
		_, acknowledged := db.state.acks[ack{sale, epoch, name}]
		list.Members = append(list.Members, liveness.Member{
			Process: name, Pulse: p.pulse(), Acknowledged: acknowledged,
			Commits: p.self.Commits, Host: p.self.Host, Program: p.self.Program,
		})
	}
	return list
}

// Heartbeat counts a heartbeat. It returns the process list as it was just before.
func (s *Store) Heartbeat(ctx context.Context, self liveness.Self) (liveness.ProcessList, error) {
	return run(ctx, s, "Heartbeat", func(st *state) (liveness.ProcessList, error) {
		list := s.db.list("", 0)
		list.Clock = s.db.now()
		p, there := st.processes.get(self.Process)
		if p.beats++; !there {
			p.self = self
		}
		p.self.Commits = self.Commits
		st.processes.put(self.Process, p)
		return list, nil
	})
}

// Leave removes the process from the process list.
func (s *Store) Leave(ctx context.Context, process string) error {
	return s.write(ctx, "Leave", func(st *state) error {
		st.processes.remove(process)
		return nil
	})
}

// Acknowledge stores an acknowledgement, once, and the late orders.
func (s *Store) Acknowledge(ctx context.Context, sale string, epoch int64, process string, late []orders.Reservation) error {
	return s.write(ctx, "Acknowledge", func(st *state) error {
		for i := range late {
			st.late.put(late[i].ID, kept(&late[i]))
		}
		st.acks[ack{sale, epoch, process}] = struct{}{}
		return nil
	})
}

// HandOver reads the process list.
func (s *Store) HandOver(ctx context.Context, lead storage.Lead) (liveness.ProcessList, error) {
	return run(ctx, s, "HandOver", func(st *state) (liveness.ProcessList, error) {
		if _, err := st.leads(lead); err != nil {
			return liveness.ProcessList{}, err
		}
		return s.db.list(lead.Sale, lead.Epoch), nil
	})
}

// Late reads the late orders by id.
func (s *Store) Late(ctx context.Context, sale string) ([]orders.Reservation, error) {
	return run(ctx, s, "Late", func(st *state) (list []orders.Reservation, err error) {
		for _, r := range st.late.all() {
			if r.Sale == sale {
				list = append(list, kept(&r))
			}
		}
		return list, nil
	})
}

// DeleteLate deletes late orders.
func (s *Store) DeleteLate(ctx context.Context, ids []orders.ID) error {
	return s.write(ctx, "DeleteLate", func(st *state) error {
		for _, id := range ids {
			st.late.remove(id)
		}
		return nil
	})
}

// Newest looks at the end of the events, and for the event seen.
func (s *Store) Newest(ctx context.Context, seen storage.LastEvent) (storage.LastEvent, bool, error) {
	type result struct {
		newest storage.LastEvent
		there  bool
	}
	r, err := run(ctx, s, "Newest", func(st *state) (result, error) {
		r := result{there: seen.Seq == 0 || slices.ContainsFunc(st.after(seen.Seq-1, 1), func(e orders.Event) bool {
			return e.Seq == seen.Seq && e.OrderID == seen.Order
		})}
		if n := len(st.events); n > 0 {
			r.newest = storage.LastEvent{Seq: st.events[n-1].Seq, Order: st.events[n-1].OrderID}
		}
		return r, nil
	})
	return r.newest, r.there, err
}
