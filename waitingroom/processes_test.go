package waitingroom_test

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate/waitingroom"
)

// W3 across processes: whoever asks one after the other, of which the second has an older copy of the room, sees nothing go back.
func TestAnOlderProcessTakesNothingBack(t *testing.T) {
	for _, mode := range []waitingroom.Mode{waitingroom.ModeDraw, waitingroom.ModeFIFO} {
		t.Run(string(mode), func(t *testing.T) { each(t, func(t *testing.T, h *house) { takesNothingBack(t, h, mode) }) })
	}
}

func takesNothingBack(t *testing.T, h *house, mode waitingroom.Mode) {
	h.open(func(d *waitingroom.Definition) {
		d.Mode, d.StartsAt, d.RatePerMin = mode, time.Now().Add(time.Minute), 300
	})
	crowd := people(40)
	h.join(crowd...)
	older := h.process()
	ask := func(s *waitingroom.Service, who, token string) waitingroom.Place {
		t.Helper()
		p, err := s.Place(t.Context(), name, waitingroom.Visitor{User: who, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if err := older.SetClock(t.Context(), h.at); err != nil { // it reads the room before the draw, and again only if it has to
		t.Fatal(err)
	}
	latest := make(map[string]string) // tokens
	for round := range 6 {
		h.tick(time.Minute * time.Duration(max(0, 1-round)))
		h.tick(time.Second)
		turns, waiting := 0, 0
		for _, who := range crowd {
			newer := ask(h.rooms, who, latest[who])
			latest[who] = newer.Token
			again, err := outcome(older.Join(t.Context(), name, waitingroom.Visitor{User: who, Token: newer.Token}, 1))
			if err != nil {
				t.Fatal(err)
			}
			for what, p := range map[string]waitingroom.Place{"joining again": again, "by name": ask(older, who, ""), "with the token": ask(older, who, newer.Token)} {
				if p.State != newer.State || p.Position != newer.Position || p.Ahead > newer.Ahead {
					t.Errorf("round %d, %s: %s at %d, %d ahead, and then %s at %d, %d ahead", round, what, newer.State, newer.Position, newer.Ahead, p.State, p.Position, p.Ahead)
				}
				if back := ask(older, who, p.Token); back.Ahead > newer.Ahead || back.State != newer.State {
					t.Errorf("round %d, %s, with the older process' token: %+v", round, what, back)
				}
			}
			switch newer.State {
			case waitingroom.StateTurn:
				turns++
			case waitingroom.StateWaiting:
				waiting++
			}
		}
		if turns == 0 || waiting == 0 {
			t.Fatalf("round %d proves nothing: %d turns, %d wait", round, turns, waiting)
		}
	}
}
