package waitingroom_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/waitingroom"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// counted returns how many rooms, with their tails, and places there are.
func (h *house) counted() (nRooms int, nPlaces int64) {
	h.Helper()
	rooms, places := h.rows()
	return len(rooms), int64(len(places))
}

// A room is deleted with all its places a month after its end, and neither before nor without an end. It is closed then, and its name stays: no
// other room meets the tokens of its places.
func TestOldRoomsAreDeleted(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(d *waitingroom.Definition) {
			d.Mode, d.GatherAt, d.StartsAt = waitingroom.ModeDraw, time.Now().Add(-time.Minute), time.Now().Add(time.Minute)
		})
		first := h.status().Definition
		crowd := h.few(12_001)
		h.crowd(crowd, "", nil)
		cid := h.joined("cid")
		h.jump(2 * time.Minute)
		h.later(time.Second)
		for _, other := range []string{"open", "young"} {
			d := first
			d.Room, d.Sale, d.Item, d.Mode = other, "", "", waitingroom.ModeFIFO
			if _, _, err := h.rooms.Put(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			if _, err := outcome(h.rooms.Join(t.Context(), other, user("ann"), 1)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := h.rooms.Close(t.Context(), name, waitingroom.Cause{}); err != nil {
			t.Fatal(err)
		}
		h.shop.room = name // as in a room that ended because everything was sold
		for _, days := range []int{29, 1} {
			if err := h.rooms.Prune(t.Context()); err != nil {
				t.Fatal(err)
			}
			if rooms, places := h.counted(); rooms != 3 || places != crowd+3 {
				t.Fatalf("%d rooms, %d places", rooms, places)
			}
			h.jump(time.Duration(days) * 24 * time.Hour)
			if days == 29 {
				if _, err := h.rooms.Close(t.Context(), "young", waitingroom.Cause{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		h.amend(name, func(r *store.Room) { r.Saved.TickedAt = 0 })
		for range 2 {
			if err := h.rooms.Prune(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if rooms, places := h.counted(); rooms != 3 || places != 2 || h.shop.room != "" {
			t.Errorf("%d rooms, %d places, the item has the room %q", rooms, places, h.shop.room)
		}
		if all, err := h.rooms.Rooms(t.Context()); err != nil || len(all) != 2 {
			t.Errorf("%+v, %v", all, err)
		}
		for _, process := range []*waitingroom.Service{h.rooms, h.process()} {
			h.rooms = process
			h.jump(0)
			if s := h.status(); s.Phase != waitingroom.PhaseClosed || s.Joined != 0 || s.Sale != "" || s.Draw.Root != "" {
				t.Errorf("%+v", s)
			}
			h.verify()
			if _, no, err := h.rooms.Join(t.Context(), name, user("ann"), 1); refused(no, err) != waitingroom.ReasonEnded {
				t.Errorf("who joins: %v", err)
			}
			if _, err := h.rooms.Place(t.Context(), name, waitingroom.Visitor{User: "cid", Token: cid.Token}); !errors.Is(err, waitingroom.ErrNotJoined) {
				t.Errorf("who had a place: %v", err)
			}
			first.GatherAt, first.StartsAt = h.at.Add(-time.Minute), h.at.Add(time.Minute)
			if _, _, err := h.rooms.Put(t.Context(), first); !errors.Is(err, waitingroom.ErrConflict) || h.shop.room != "" {
				t.Errorf("another room of the name: %v, the item has the room %q", err, h.shop.room)
			}
		}
	})
}

// A room that cannot be deleted yet, because its item would need turns of it for ever, does not keep the others.
func TestARoomThatCannotBeDeletedKeepsNoOther(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(*waitingroom.Definition) {})
		d := h.status().Definition
		d.Room, d.Sale, d.Item = "zebra", "", "" // behind the other one
		if _, _, err := h.rooms.Put(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		for _, room := range []string{name, "zebra"} {
			h.amend(room, func(r *store.Room) {
				r.Saved.Ended, r.Saved.EndedAt, r.Terms.StartsAt, r.Saved.TickedAt = "closed", 1, 1, 1
			})
		}
		h.shop.stuck = true
		if err := h.rooms.Prune(t.Context()); !errors.Is(err, waitingroom.ErrUnavailable) {
			t.Errorf("%v, want ErrUnavailable", err)
		}
		left := func() (n int) {
			rooms, _ := h.rows()
			for i := range rooms {
				if rooms[i].Saved.Secret != "" {
					n++
				}
			}
			return n
		}
		if n := left(); n != 1 {
			t.Errorf("%d rooms are left, want only the one of the item", n)
		}
		h.shop.stuck = false
		if err := h.rooms.Prune(t.Context()); err != nil || left() != 0 || h.shop.guardedBy() != "" {
			t.Errorf("%v, %d rooms are left, and the item has the room %q", err, left(), h.shop.guardedBy())
		}
	})
}

// Run deletes them.
func TestRunDeletesOldRooms(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.standAlone(1)
		if _, err := h.rooms.Close(t.Context(), name, waitingroom.Cause{}); err != nil {
			t.Fatal(err)
		}
		h.amend(name, func(r *store.Room) { r.Saved.EndedAt, r.Terms.StartsAt = 1, 1 })
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		var running sync.WaitGroup
		running.Go(func() { _ = h.rooms.Run(ctx) })
		for left := 1; left > 0; time.Sleep(10 * time.Millisecond) {
			all, err := h.rooms.Rooms(ctx)
			if err != nil {
				t.Error(err)
				break
			}
			left = len(all)
		}
		cancel()
		running.Wait()
	})
}
