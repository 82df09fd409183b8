package memory

import (
	"context"
	"encoding/hex"

	"github.com/tidegate/tidegate/orders/internal/storage"
)

// Installation returns what was installed, and the place that New has chosen.
func (s *Store) Installation(ctx context.Context) (storage.Installation, error) {
	return run(ctx, s, "Installation", func(st *state) (storage.Installation, error) {
		in := st.installation
		in.Live = s.db.place
		return in, nil
	})
}

// Install stores a new id.
func (s *Store) Install(ctx context.Context, namespace string, replace bool) error {
	return s.write(ctx, "Install", func(st *state) error {
		if st.installation.ID == "" || replace {
			st.installation = storage.Installation{ID: hex.EncodeToString(s.db.random(16)), Namespace: namespace, Stored: s.db.place}
		}
		return nil
	})
}

// A Copy is a backup of a database. It is immutable.
type Copy struct{ state *state }

// Copy returns what is committed.
func (s *Store) Copy() *Copy {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	return &Copy{s.db.state.clone()}
}

// Restore starts the server again with a copy, which stays usable. The database of which it was made goes back in time: it is in the same
// place, and has the id that it had then. Another database becomes a clone, which orders.ErrForeign keeps from use until it is adopted.
func (s *Store) Restore(c *Copy) {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.db.state = c.state.clone()
	s.db.restart()
}
