package judge

import (
	"testing"
	"time"
)

// at moves a call to the first API; all others use the second one.
func at(call Call) Call { call.API = 0; return call }

func elsewhere(call Call) Call { call.API = 1; return call }

// TestJudgeOfWhatOneProcessAloneKnew: a process was stopped from the 10th to the 30th second while its sale was rebuilt.
func TestJudgeOfWhatOneProcessAloneKnew(t *testing.T) {
	stood := []Stop{{API: 0, From: noon.Add(10 * time.Second), Until: noon.Add(30 * time.Second)}}
	const before, during, after = 9_000, 20_000, 60_000
	x, xLost := at(got("c-1", "k", "x", before, before+1)), at(lost("c-1", "k", before, before+3_000))
	y := elsewhere(got("c-1", "k", "y", during, during+1))
	no := elsewhere(refused("c-1", "k", "sold_out", during, during+1))
	late, seated := []Order{row("x", "c-1", rejected)}, []Order{row("x", "c-1", "confirmed", 1)}
	soldOut := func(s *Sale) { s.Items[0].Stock = 1 }
	// Two orders had unit 1, one after the other, and no order ever had unit 2.
	sold := elsewhere(refused("c-2", "k", "sold_out", during, during+1))
	resold := []Order{row("x", "c-1", "expired", 1), row("z", "bob", "expired", 1)}
	twice := []Event{
		change(1, "x", "c-1", "confirmed", 1), change(2, "x", "c-1", "expired", 1), change(3, "z", "bob", "confirmed", 1), change(4, "z", "bob", "expired", 1),
	}
	two := func(s *Sale) { s.Items[0].Stock = 2 }
	for _, tt := range []scene{
		{name: "another order for the key", calls: []Call{x, y}, orders: append(late, row("y", "c-1", "confirmed", 1)), stops: stood},
		{name: "as if nobody had stood still", calls: []Call{x, y}, orders: append(late, row("y", "c-1", "confirmed", 1)), want: "I7"},
		{
			name: "another process stood still", calls: []Call{elsewhere(x), y}, orders: append(late, row("y", "c-1", "confirmed", 1)), stops: stood,
			want: "I7",
		},
		{name: "both orders stand", calls: []Call{x, y}, orders: append(seated, row("y", "c-1", "confirmed", 2)), stops: stood, want: "I7"},
		{
			name: "the late one woke up between two", calls: []Call{x, y, elsewhere(got("c-1", "k", "z", after, after+1))},
			orders: append(late, row("y", "c-1", "confirmed", 1), row("z", "c-1", "confirmed", 2)), stops: stood, want: "I7",
		},
		{name: "it is gone", calls: []Call{x, y}, orders: []Order{row("y", "c-1", "confirmed", 1)}, stops: stood, want: "I1 I7"},
		{name: "accepted later", calls: []Call{at(got("c-1", "k", "x", during, during+1)), y}, orders: append(late, row("y", "c-1", "confirmed", 1)), stops: stood, want: "I7"},
		{name: "refused meanwhile", calls: []Call{x, no}, orders: late, sale: soldOut, stops: stood},
		{name: "refused meanwhile, and seated", calls: []Call{x, no}, orders: seated, sale: soldOut, stops: stood},
		{name: "refused afterwards", calls: []Call{x, elsewhere(refused("c-1", "k", "ended", after, after+1))}, orders: seated, stops: stood, want: "I7"},
		{name: "lost, and another order", calls: []Call{xLost, y}, orders: append(late, row("y", "c-1", "confirmed", 1)), stops: stood},
		{
			name: "lost, and a second order", calls: []Call{xLost, y}, orders: append(seated, row("y", "c-1", "confirmed", 2)), stops: stood,
			want: "I18",
		},
		{name: "lost, refused, rejected", calls: []Call{xLost, no}, orders: late, sale: soldOut, stops: stood},
		{name: "lost, refused, seated", calls: []Call{xLost, no}, orders: seated, sale: soldOut, stops: stood},
		{name: "lost, refused, seated, and nobody stood still", calls: []Call{xLost, no}, orders: seated, sale: soldOut, want: "I18"},
		{
			name: "lost, refused afterwards, seated", calls: []Call{xLost, elsewhere(refused("c-1", "k", "ended", after, after+1))}, orders: seated, stops: stood,
			want: "I18",
		},
		{name: "the unit that it had first is unsold", calls: []Call{x, sold}, orders: resold, events: twice, sale: two, stops: stood, faults: true},
		{name: "a unit is unsold, and nobody stood still", calls: []Call{x, sold}, orders: resold, events: twice, sale: two, faults: true, want: "I15 I16"},
	} {
		t.Run(tt.name, tt.play)
	}
}
