package history_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/history"
	"github.com/tidegate/tidegate/internal/testenv/databases"
	"github.com/tidegate/tidegate/login"
)

// each runs test over both databases.
func each(t *testing.T, test func(t *testing.T, h *history.History)) {
	databases.Each(t, history.Postgres, history.SQLite, func(t *testing.T, db *sql.DB, open func(*sql.DB) *history.History) { test(t, open(db)) })
}

// Any number of processes tell of the same events at once.
func TestToldByMany(t *testing.T) {
	each(t, func(t *testing.T, h *history.History) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for n := range 20 {
					if err := h.Bans().Record(t.Context(), []bans.Event{ban(n), ban(n + 1)}); err != nil {
						t.Error(err)
					}
					if err := h.Logins().Record(t.Context(), []login.Event{failure(n), failure(n + 1)}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if bans, logins := listBans(t, h.Bans(), "", 1000), listLogins(t, h.Logins(), "", "", 1000); len(bans) != 21 || len(logins) != 21 {
			t.Errorf("%d bans and %d logins, want 21", len(bans), len(logins))
		}
	})
}

// What cannot be kept as a whole is told again as a whole.
func TestAllOrNone(t *testing.T) {
	each(t, func(t *testing.T, h *history.History) {
		ofPlanet, applause := ban(1), failure(1)
		ofPlanet.Kind, applause.Action = "planet", "applaud"
		if err := h.Bans().Record(t.Context(), []bans.Event{ban(0), ofPlanet}); err == nil {
			t.Error("kept a ban of a planet")
		}
		if err := h.Logins().Record(t.Context(), []login.Event{failure(0), applause}); err == nil {
			t.Error("kept an action that there is not")
		}
		if bans, logins := listBans(t, h.Bans(), "", 10), listLogins(t, h.Logins(), "", "", 10); len(bans)+len(logins) != 0 {
			t.Errorf("half of it is kept: %v, %v", bans, logins)
		}
	})
}

func TestUnavailable(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "gone.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	h := history.SQLite(db)
	for what, ask := range map[string]func() error{
		"bans":       func() error { _, err := h.Bans().List(t.Context(), "", 1); return err },
		"logins":     func() error { _, err := h.Logins().List(t.Context(), "", "", 1); return err },
		"banned for": func() error { _, err := h.Logins().BannedFor(t.Context(), "192.0.2.x"); return err },
		"changes":    func() error { _, err := h.Changes().List(t.Context(), "", 1); return err },
	} {
		if err := ask(); !errors.Is(err, history.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := h.Changes().Record(t.Context(), change(1)); err == nil {
		t.Error("kept nowhere")
	}
}
