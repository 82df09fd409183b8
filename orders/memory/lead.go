package memory

import (
	"context"
)

// lead is the lock of a leader.
type lead struct {
	of   *Store
	lose context.CancelCauseFunc
	over bool // guarded by the database's mu: the lock cannot be taken any more
}

// Lead runs fn while it holds the lock of a sale. fn's context ends when the connection is lost, and with it the lock.
func (s *Store) Lead(ctx context.Context, sale string, fn func(context.Context) error) (led bool, err error) {
	leading, lose := context.WithCancelCause(ctx)
	l := &lead{of: s, lose: lose}
	defer s.db.release(sale, l)
	err = s.do(ctx, "Lead", func() error {
		s.db.mu.Lock()
		defer s.db.mu.Unlock()
		if !l.over {
			s.db.leads.add(sale, l)
		}
		return nil
	})
	if err != nil || !s.db.holds(sale, l) {
		return false, err
	}
	if err = fn(leading); err == nil && ctx.Err() == nil {
		err = wrap("Lead", context.Cause(leading))
	}
	return true, err
}

func (db *database) holds(sale string, l *lead) bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.leads.rows[sale] == l
}

// release ends a lead, even if its lock is taken only later.
func (db *database) release(sale string, l *lead) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if l.over = true; db.leads.rows[sale] == l {
		db.leads.remove(sale)
	}
	l.lose(nil)
}

// Disconnect loses the connections of this process, and with them its leads.
func (s *Store) Disconnect() {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.db.disconnect(func(l *lead) bool { return l.of == s })
}

func (db *database) disconnect(lost func(*lead) bool) {
	var sales []string
	for sale, l := range db.leads.all() {
		if lost(l) {
			l.lose(ErrConnectionLost)
			sales = append(sales, sale)
		}
	}
	for _, sale := range sales {
		db.leads.remove(sale)
	}
}

// Restart starts the server again, with all that is committed: all processes lose their leads, and see another server.
func (s *Store) Restart() {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.db.restart()
}

func (db *database) restart() {
	db.starts++
	db.disconnect(func(*lead) bool { return true })
}
