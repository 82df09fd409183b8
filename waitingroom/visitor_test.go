package waitingroom_test

import (
	"errors"
	"testing"

	"github.com/tidegate/tidegate/waitingroom"
)

// A token is worth nothing to anybody but the visitor whose place it is of: in a room for everybody too, a user's place is the user's, and a stranger's that of
// the token.
func TestWhoseToken(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(d *waitingroom.Definition) { d.Sale, d.Item, d.Capacity, d.RequiresUser = "", "", 10, false })
		alice := h.joined("alice")
		stranger, err := outcome(h.rooms.Join(t.Context(), name, waitingroom.Visitor{}, 1))
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			who    waitingroom.Visitor
			number int64 // 0: none
		}{
			{waitingroom.Visitor{User: "alice"}, alice.Number},
			{waitingroom.Visitor{User: "alice", Token: alice.Token}, alice.Number},
			{waitingroom.Visitor{User: "alice", Token: stranger.Token}, alice.Number},
			{waitingroom.Visitor{User: "bob", Token: alice.Token}, 0},
			{waitingroom.Visitor{User: "bob", Token: stranger.Token}, 0},
			{waitingroom.Visitor{Token: alice.Token}, 0},
			{waitingroom.Visitor{Token: h.place("alice").Token}, 0}, // one of a later answer
			{waitingroom.Visitor{Token: stranger.Token}, stranger.Number},
			{waitingroom.Visitor{}, 0},
		} {
			p, err := h.rooms.Place(t.Context(), name, tt.who)
			if p.Number != tt.number || (tt.number == 0) != errors.Is(err, waitingroom.ErrNotJoined) {
				t.Errorf("%.20v reads place %d, %v; want %d", tt.who, p.Number, err, tt.number)
			}
			if tt.number == 0 {
				if p, err := outcome(h.rooms.Claim(t.Context(), name, tt.who)); !errors.Is(err, waitingroom.ErrNotJoined) {
					t.Errorf("%.20v claims place %d, %v", tt.who, p.Number, err)
				}
				if err := h.rooms.Leave(t.Context(), name, tt.who); err != nil && !errors.Is(err, waitingroom.ErrNotJoined) {
					t.Errorf("%.20v leaves: %v", tt.who, err)
				}
			}
		}
		if p := h.place("alice"); p.State.Final() {
			t.Errorf("alice's place is %s", p.State)
		}
		again, err := outcome(h.rooms.Join(t.Context(), name, waitingroom.Visitor{Token: alice.Token}, 1))
		if err != nil || !again.Created || again.Number == alice.Number {
			t.Errorf("with alice's token: %+v, %v; want a place of its own", again, err)
		}
	})
}
