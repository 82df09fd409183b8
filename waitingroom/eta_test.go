package waitingroom_test

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate/waitingroom"
)

// W21 up to the last unit: half of those whose turn it is take none, so the line moves on after the stock has been promised. In each tenth of
// the positions four of five ranges cover the truth, and whoever is told a range gets a turn.
func TestTheTimeUntilTheTurnAtTheEndOfTheStock(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		const stock, visitors, tenths = 300, 700, 10
		h.shop.free = stock
		h.open(func(d *waitingroom.Definition) { d.RatePerMin, d.ClaimWindow = 180, 10*time.Second })
		who := people(visitors)
		h.join(who...)
		type guess struct {
			at  time.Time
			eta *waitingroom.ETA
		}
		guesses := make([][]guess, visitors)
		turns := make([]time.Time, visitors)
		likely := make([]int, visitors) // how often a place was told that there should be enough
		next := 0                       // the first that has had no turn
		for range 3 * time.Minute / time.Second {
			h.tick(time.Second)
			for ; next < visitors; next++ {
				if p := h.place(who[next]); p.State == waitingroom.StateWaiting {
					break
				}
				turns[next] = h.at
				if next%2 == 0 {
					if _, err := outcome(h.rooms.Claim(t.Context(), name, user(who[next]))); err != nil {
						t.Fatal(err)
					}
					h.shop.order(who[next])
				}
			}
			for i := next; i < visitors && h.at.Second()%3 == 0; i += 7 {
				p := h.place(who[i])
				if p.ETA != nil {
					guesses[i] = append(guesses[i], guess{h.at, p.ETA})
				}
				if p.Outlook == waitingroom.OutlookLikely {
					likely[i]++
				}
			}
		}
		if next < stock || next == visitors {
			t.Fatalf("%d of %d had a turn", next, visitors)
		}
		all := 0
		for tenth := range tenths {
			asked, covered := 0, 0
			for i := tenth * next / tenths; i < (tenth+1)*next/tenths; i++ {
				for _, g := range guesses[i] {
					asked++
					if truth := turns[i].Sub(g.at); g.eta.Min <= truth && truth-time.Second <= g.eta.Max {
						covered++
					}
				}
			}
			if all += asked; covered*5 < asked*4 {
				t.Errorf("tenth %d of the positions with a turn: %d of %d ranges covered the truth", tenth+1, covered, asked)
			}
		}
		for i := next; i < visitors; i++ {
			if len(guesses[i]) > 0 || likely[i] > 0 {
				t.Errorf("place %d got no turn, had %d ranges, and was told %d times that there should be enough", i+1, len(guesses[i]), likely[i])
			}
		}
		if all < 150 {
			t.Errorf("only %d ranges", all)
		}
	})
}
