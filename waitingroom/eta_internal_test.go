package waitingroom

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// crowded is a room in which people wait without end. The controller moves it by a clock of its own, and its visitors follow a random script.
type crowded struct {
	room

	random        *rand.Rand
	silent, gone  float64       // shares of turns that nobody claims, and of places that were given up
	claims, stays time.Duration // means: from the turn to the claim, and from that to the end of the visit

	turns  []visit // the last ones
	turnAt []int64 // by position
}

// visit is what becomes of a turn.
type visit struct{ turn, claims, until, admitted, ends int64 }

// oneLane is that of a room without lanes, which so many have joined.
func oneLane(joined int64) []store.Lane {
	return []store.Lane{{Share: 1, Tail: store.Tail{Joined: joined}}}
}

func oneIf(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func (c *crowded) mean(d time.Duration) int64 {
	return int64(c.random.ExpFloat64() * float64(d.Milliseconds()))
}

// tick does what tick and the visitors do.
func (c *crowded) tick() {
	c.saved.Now += tickEvery.Milliseconds()
	c.saved.TickedAt = c.saved.Now
	for len(c.turns) > 0 && max(c.turns[0].until, c.turns[0].ends, c.turns[0].turn+2*measured.Milliseconds()) < c.saved.Now {
		c.turns = c.turns[1:]
	}
	f := c.facts()
	for i := range c.turns {
		switch v := &c.turns[i]; {
		case v.admitted > 0 || v.claims > c.saved.Now || v.until <= c.saved.Now:
		case !c.belowLimits(f.Active, f.Claimed):
			v.claims, v.until = c.saved.Now+1000, max(v.until, c.saved.Now+claimRetryWithin.Milliseconds())
		default:
			v.admitted, v.ends = c.saved.Now, c.saved.Now+c.mean(c.stays)
			f.Active, f.Claimed = f.Active+1, f.Claimed+1
		}
	}
	turns, _ := c.budget(&f, tickEvery.Milliseconds())
	for given := int64(0); given < turns; {
		c.saved.Lanes[0].Served++
		c.turnAt = append(c.turnAt, c.saved.Now)
		if c.random.Float64() < c.gone {
			continue
		}
		given++
		v := visit{turn: c.saved.Now, claims: c.saved.Now + c.mean(c.claims), until: c.saved.Now + c.def.ClaimWindow.Milliseconds()}
		if c.random.Float64() < c.silent {
			v.claims = v.until
		}
		c.turns = append(c.turns, v)
	}
	if turns > 0 {
		c.spend(turns)
	}
}

// facts counts as count does.
func (c *crowded) facts() (f store.Counts) {
	one := func(yes bool) int64 { return int64(oneIf(yes)) }
	for _, v := range c.turns {
		open, past := v.admitted == 0 && v.until > c.saved.Now, v.turn <= c.saved.Now-claimDelay.Milliseconds()
		f.Open += one(open)
		f.Fresh += one(open && !past)
		f.Active += one(v.admitted > 0 && v.ends > c.saved.Now)
		f.Claimed += one(v.admitted > c.saved.Now-measured.Milliseconds())
		recent := past && v.turn > c.saved.Now-(claimDelay+measured).Milliseconds()
		f.Given += one(recent)
		f.Taken += one(recent && v.admitted > 0)
	}
	return f
}

// W21: in rooms of all kinds, the range of the time until the turn covers the truth in four of five cases. It is known in most of them, and
// not so wide that it says nothing.
func TestETACoversTheTruth(t *testing.T) {
	for what, tt := range map[string]struct {
		bounds        Definition
		silent, gone  float64
		claims, stays time.Duration
	}{
		"a rate":                       {Definition{RatePerMin: 60}, 0, 0, time.Second, time.Minute},
		"a low rate":                   {Definition{RatePerMin: 20}, 0.3, 0, 2 * time.Second, time.Minute},
		"half of the heads silent":     {Definition{RatePerMin: 60}, 0.5, 0, 2 * time.Second, time.Minute},
		"a high rate, many have left":  {Definition{RatePerMin: 600}, 0.5, 0.2, 2 * time.Second, time.Minute},
		"a capacity":                   {Definition{Capacity: 20}, 0, 0, time.Second, time.Minute},
		"a capacity, half silent":      {Definition{Capacity: 60}, 0.5, 0.1, 3 * time.Second, time.Minute},
		"a capacity beside a rate":     {Definition{Capacity: 30, RatePerMin: 60}, 0.5, 0.1, 3 * time.Second, 30 * time.Second},
		"people who claim rather late": {Definition{RatePerMin: 60}, 0.3, 0, 10 * time.Second, time.Minute},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			type guess struct {
				ETA

				at, position int64
			}
			asked, known, covered, useful := 0, 0, 0, 0
			for seed := range uint64(3) {
				c := &crowded{random: rand.New(rand.NewPCG(seed, 1)), silent: tt.silent, gone: tt.gone, claims: tt.claims, stays: tt.stays}
				c.def, c.saved.Lanes, c.saved.Brake, c.saved.Now = tt.bounds, oneLane(1_000_000), 1, 1_000_000
				c.def.Mode, c.def.ClaimWindow, c.def.StartsAt = ModeFIFO, DefaultClaimWindow, time.UnixMilli(c.saved.Now)
				var guesses []guess
				moved := &progress{}
				for end := c.saved.Now + 8*time.Minute.Milliseconds(); c.saved.Now < end; {
					c.tick()
					if moved = moved.observe(&c.room, &c.room, 0); c.saved.Now%5000 != 0 {
						continue
					}
					for _, ahead := range []int64{0, 3, 10, 30, 100} {
						asked++
						if eta := (&view{room: c.room, moved: []*progress{moved}}).eta(0, ahead, ahead); eta != nil {
							guesses = append(guesses, guess{*eta, c.saved.Now, c.saved.Lanes[0].Served + ahead})
						}
					}
				}
				for _, g := range guesses {
					for c.saved.Lanes[0].Served <= g.position {
						c.tick()
					}
					truth := time.Duration(c.turnAt[g.position]-g.at) * time.Millisecond
					known++
					covered += oneIf(g.Min <= truth && truth <= g.Max)
					useful += oneIf(g.Max <= 3*truth+10*time.Second)
				}
			}
			if covered*5 < known*4 || known*2 < asked || useful*2 < known {
				t.Errorf("of %d times %d were known, %d ranges covered the truth, and %d were of use", asked, known, covered, useful)
			}
		})
	}
}

// W21: the range is null where it would be a guess.
func TestETAIsNoGuess(t *testing.T) {
	const start = 1_000_000
	for what, tt := range map[string]struct {
		change func(r *room) // applied after a minute in which the cursor moves by one a second
		ahead  int64
		turns  int64 // after which the cursor stops; 0: it does not
		known  bool
	}{
		"a minute at one a second":  {func(*room) {}, 9, 0, true},
		"held":                      {func(r *room) { r.saved.Held = true }, 9, 0, false},
		"the stock cannot be read":  {func(r *room) { r.saved.Stalled = true }, 9, 0, false},
		"another rate":              {func(r *room) { r.def.RatePerMin = 120 }, 9, 0, false},
		"another share":             {func(r *room) { r.saved.Lanes[0].Share++ }, 9, 0, false},
		"another capacity":          {func(r *room) { r.def.Capacity = 10 }, 9, 0, false},
		"nobody waits":              {func(r *room) { r.saved.Lanes[0].Tail.Joined = r.saved.Lanes[0].Served }, 0, 0, false},
		"ended":                     {func(r *room) { r.saved.Ended = string(PhaseClosed) }, 9, 0, false},
		"within the stock":          {func(r *room) { r.def.Sale, r.saved.Free = "spring", 10 }, 9, 0, true},
		"beyond the stock":          {func(r *room) { r.def.Sale, r.saved.Free = "spring", 9 }, 9, 0, false},
		"everything is taken":       {func(r *room) { r.def.Sale, r.saved.Free = "spring", 0 }, 0, 0, false},
		"nineteen turns were given": {func(*room) {}, 9, 19, false},
	} {
		r := room{def: Definition{Mode: ModeFIFO, RatePerMin: 60, StartsAt: time.UnixMilli(start)}, saved: store.Saved{Now: start, TickedAt: start, Lanes: oneLane(1000)}}
		moved := &progress{}
		for range 60 {
			r.saved.Now, r.saved.TickedAt = r.saved.Now+1000, r.saved.Now+1000
			r.saved.Lanes[0].Served = min(r.saved.Lanes[0].Served+1, cmp.Or(tt.turns, r.saved.Lanes[0].Tail.Joined))
			moved = moved.observe(&r, &r, 0)
		}
		before := r
		before.saved.Lanes = slices.Clone(r.saved.Lanes)
		tt.change(&r)
		v := &view{room: r, moved: []*progress{moved.observe(&before, &r, 0)}}
		if eta := v.eta(0, tt.ahead, tt.ahead); (eta != nil) != tt.known {
			t.Errorf("%s: %v", what, eta)
		} else if tt.known && (eta.Min > 10*time.Second || eta.Max < 10*time.Second || eta.Max > 15*time.Second) {
			t.Errorf("%s: %v, and the turn is in ten seconds", what, eta)
		}
	}
	onlyAdvance := room{def: Definition{Mode: ModeFIFO, StartsAt: time.UnixMilli(start)}, saved: store.Saved{Now: start, Lanes: oneLane(1000)}}
	if eta := (&view{room: onlyAdvance, moved: []*progress{{slow: 1, fast: 1}}}).eta(0, 9, 9); eta != nil {
		t.Errorf("moved by hand: %v", eta)
	}
}
