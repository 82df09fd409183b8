package waitingroom_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/waitingroom"
	"github.com/tidegate/tidegate/waitingroom/draw"
)

var membersAndAll = []waitingroom.Lane{{Name: "members", Share: 30, Tier: "member"}, {Name: "all", Share: 70}}

func member(name string) waitingroom.Visitor {
	return waitingroom.Visitor{User: name, Lane: "members", Tier: "member"}
}

// joinAs gives visitors places for a quantity.
func (h *house) joinAs(quantity int, all ...waitingroom.Visitor) {
	h.Helper()
	for _, who := range all {
		if p, err := outcome(h.rooms.Join(h.Context(), name, who, quantity)); err != nil || !p.Created {
			h.Fatal(who, p, err)
		}
	}
}

// lanes returns how many positions of the first and the second lane were served.
func (h *house) lanes() (first, second int64) {
	h.Helper()
	by := h.status().ByLane
	return by[0].Served, by[1].Served
}

// crowds puts n people in each lane.
func (h *house) crowds(n int64) {
	h.Helper()
	h.crowdIn("members", n, "", nil)
	h.crowdIn("all", n, "", nil)
}

// While people wait in both lanes, each gets its share, whichever process gives the turns, and all together no more than the room permits. When
// one is empty, the other gets all; when people come to it again, it has saved up nothing.
func TestSharesOfLanes(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(d *waitingroom.Definition) { d.Sale, d.Item, d.Lanes = "", "", membersAndAll })
		turns := func(rounds, n int) (members, all int64) {
			t.Helper()
			h.jump(0)
			m, a := h.lanes()
			for range rounds {
				if _, err := h.rooms.Advance(t.Context(), name, n, waitingroom.Cause{}); err != nil {
					t.Fatal(err)
				}
				h.rooms = h.process() // the one before has died
				h.later(time.Second)
			}
			members, all = h.lanes()
			return members - m, all - a
		}
		h.crowds(100)
		for _, n := range []int{1, 10, 50} {
			m, a := turns(50/n, n)
			if m+a != 50 || m < 14 || m > 16 {
				t.Errorf("%d at a time, members got %d of 50, all %d", n, m, a)
			}
			h.crowds(50)
		}
		h.crowdIn("members", 500, "", nil)
		for range 3 {
			turns(1, 100)
		}
		if m, a := turns(1, 50); m != 50 || a != 0 {
			t.Errorf("members alone got %d, all %d", m, a)
		}
		h.crowdIn("all", 100, "", nil)
		if m, a := turns(1, 20); m+a != 20 || a > 15 || a < 13 {
			t.Errorf("when all has people again, members got %d, all %d", m, a)
		}
		h.verify()
	})
}

// Who names no lane joins the last one that is open to everybody. A lane with a tier takes no others, and nobody changes lanes by joining again.
func TestTheLaneOfAPlace(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.shop.free = 0
		h.open(func(d *waitingroom.Definition) {
			d.Lanes = append(membersAndAll[:2:2], waitingroom.Lane{Name: "staff", Share: 1, Tier: "staff"})
		})
		for _, tt := range []struct {
			who                waitingroom.Visitor
			lane               string
			number, pos, ahead int64
		}{
			{user("ann"), "all", 1, 1, 0},
			{member("mia"), "members", 2, 1, 0},
			{waitingroom.Visitor{User: "bob", Lane: "all", Tier: "member"}, "all", 3, 2, 1},
			{member("max"), "members", 4, 2, 1},
			{member("ann"), "all", 1, 1, 0},
			{user("max"), "members", 4, 2, 1},
		} {
			p, err := outcome(h.rooms.Join(t.Context(), name, tt.who, 1))
			if err != nil || p.Lane != tt.lane || p.Number != tt.number || p.Position != tt.pos || p.Ahead != tt.ahead {
				t.Errorf("%+v: %+v, %v", tt.who, p, err)
			}
			for what, who := range map[string]waitingroom.Visitor{"user": user(tt.who.User), "token": {User: tt.who.User, Token: p.Token}} {
				if again, err := h.process().Place(t.Context(), name, who); err != nil || again.Lane != p.Lane || again.Number != p.Number || again.Position != p.Position || again.Ahead != p.Ahead {
					t.Errorf("by %s: %+v, %v", what, again, err)
				}
			}
		}
		if _, no, err := h.rooms.Join(t.Context(), name, waitingroom.Visitor{User: "eve", Lane: "members"}, 1); refused(no, err) != waitingroom.ReasonForbidden {
			t.Error(err)
		}
		if _, err := outcome(h.rooms.Join(t.Context(), name, waitingroom.Visitor{User: "eve", Lane: "vip"}, 1)); !errors.Is(err, waitingroom.ErrInvalid) || !strings.Contains(err.Error(), "lane must be one of members, all, staff") {
			t.Error(err)
		}
		h.jump(0)
		by := h.status().ByLane
		if s := h.status(); s.Joined != 4 || s.Waiting != 4 || by[0].Joined != 2 || by[1].Waiting != 2 || by[2].Joined != 0 {
			t.Errorf("%+v", s)
		}
		if err := h.rooms.Leave(t.Context(), name, user("mia")); err != nil {
			t.Fatal(err)
		}
		h.shop.free = 1
		h.later(time.Second)
		h.shop.free = 2
		h.later(time.Second)
		if a, m := h.place("ann").State, h.place("max"); a != waitingroom.StateTurn || m.State != waitingroom.StateTurn {
			t.Errorf("ann is %s, max %+v", a, m)
		}
		places, err := h.rooms.Turns(t.Context(), name, "members", 0, 2)
		if err != nil || len(places) != 1 || places[0].User != "max" || places[0].Position != 2 {
			t.Errorf("%+v, %v", places, err)
		}
		h.later(61 * time.Second) // a lapsed visitor joins the end of another lane
		if p, err := outcome(h.rooms.Join(t.Context(), name, user("max"), 1)); err != nil || !p.Created || p.Lane != "all" || p.Position != 3 {
			t.Errorf("%+v, %v", p, err)
		}
		h.verify()
	})
}

// Lanes can be changed until people join, and their shares at any time. A process that has not seen the change gives no place in a lane of before.
func TestChangingLanes(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(d *waitingroom.Definition) { d.Lanes = membersAndAll })
		late := h.process()
		if err := late.SetClock(t.Context(), h.at); err != nil {
			t.Fatal(err)
		}
		d := h.status().Definition
		put := func(lanes ...waitingroom.Lane) error {
			t.Helper()
			d.Lanes = lanes
			_, _, err := h.rooms.Put(t.Context(), d)
			return err
		}
		if err := put(waitingroom.Lane{Name: "left", Share: 1}, waitingroom.Lane{Name: "all", Share: 2}, waitingroom.Lane{Name: "right", Share: 3}); err != nil {
			t.Fatal(err)
		}
		if _, err := outcome(late.Join(t.Context(), name, member("mia"), 1)); !errors.Is(err, waitingroom.ErrUnavailable) {
			t.Errorf("in a lane that is gone: %v", err)
		}
		if p, err := outcome(late.Join(t.Context(), name, user("ann"), 1)); err != nil || p.Lane != "all" {
			t.Errorf("in a lane that is there: %+v, %v", p, err)
		}
		h.jump(0)
		h.join("bob") // right
		if err := put(waitingroom.Lane{Name: "left", Share: 7}, waitingroom.Lane{Name: "all", Share: 8}, waitingroom.Lane{Name: "right", Share: 9}); err != nil || h.status().ByLane[2].Share != 9 {
			t.Errorf("other shares: %v, %+v", err, h.status())
		}
		for what, lanes := range map[string][]waitingroom.Lane{
			"none": nil, "fewer": membersAndAll,
			"another name": {{Name: "left", Share: 7}, {Name: "all", Share: 8}, {Name: "wrong", Share: 9}},
			"a tier":       {{Name: "left", Share: 7, Tier: "x"}, {Name: "all", Share: 8}, {Name: "right", Share: 9}},
			"the order":    {{Name: "all", Share: 8}, {Name: "left", Share: 7}, {Name: "right", Share: 9}},
		} {
			if err := put(lanes...); !errors.Is(err, waitingroom.ErrConflict) {
				t.Errorf("%s: %v", what, err)
			}
		}
		h.later(time.Second)
		if a, b := h.place("ann"), h.place("bob"); a.State != waitingroom.StateTurn || b.State != waitingroom.StateTurn {
			t.Errorf("%+v, %+v", a, b)
		}
	})
}

// W4, W8, W25 to W28: each lane is drawn for itself, from one commitment and one list, which binds the lanes. A stranger can check it.
func TestDrawOfLanes(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(d *waitingroom.Definition) {
			d.Mode, d.StartsAt, d.Lanes = waitingroom.ModeDraw, time.Now().Add(time.Minute), membersAndAll
		})
		h.shop.free = 0
		lane := make(map[string]string)
		leaves := make(map[string]string)
		for i, who := range people(60) {
			v := user(who)
			if i%3 == 0 {
				v = member(who)
			}
			p, err := outcome(h.rooms.Join(t.Context(), name, v, 1))
			if err != nil || p.State != waitingroom.StateGathering || p.Position != 0 {
				t.Fatal(p, err)
			}
			text, err := base64.RawURLEncoding.DecodeString(strings.Split(p.Receipt, ".")[1])
			var claims struct{ Lane, Leaf string }
			if err != nil || json.Unmarshal(text, &claims) != nil || claims.Lane != p.Lane {
				t.Fatalf("%s: %v", text, err)
			}
			lane[who], leaves[fmt.Sprint(p.Number-1)] = p.Lane, claims.Leaf
		}
		h.jump(time.Minute)
		h.joinAs(1, member("late"))
		h.later(2 * time.Second)
		taken, inOrder := make(map[string]bool), 0
		next := map[string]int64{}
		for _, who := range people(60) {
			p := h.place(who)
			next[p.Lane]++
			at := fmt.Sprint(p.Lane, p.Position)
			if p.Lane != lane[who] || p.Position < 1 || p.Position > map[string]int64{"members": 20, "all": 40}[p.Lane] || taken[at] {
				t.Errorf("%s: %+v", who, p)
			}
			if taken[at] = true; p.Position == next[p.Lane] {
				inOrder++
			}
			if elsewhere, err := h.process().Place(t.Context(), name, user(who)); err != nil || elsewhere.Position != p.Position {
				t.Errorf("another process: %+v, %v", elsewhere, err)
			}
		}
		if inOrder > 12 {
			t.Errorf("%d of 60 have the position of their joining", inOrder)
		}
		if p := h.place("late"); p.Position != 21 {
			t.Errorf("%+v", p)
		}
		var list bytes.Buffer
		if err := h.rooms.WriteDraw(t.Context(), name, &list); err != nil {
			t.Fatal(err)
		}
		if d, err := draw.Verify(bytes.NewReader(list.Bytes())); err != nil || d.N != 60 {
			t.Errorf("%+v, %v", d, err)
		}
		if out, err := verify(t, list.String()); err != nil || strings.Contains(out, "WRONG") {
			t.Errorf("%v:\n%s", err, out)
		}
		lines := strings.SplitAfter(list.String(), "\n")
		for _, line := range lines[7:67] {
			fields := strings.Split(line, ",")
			if leaf := leafOf(t, fields); leaves[fields[0]] != leaf {
				t.Errorf("%s has the receipt of %s", line, leaves[fields[0]])
			}
		}
		for what, change := range map[string]func() string{
			"another lane":     func() string { return strings.Replace(list.String(), ",members,", ",all,", 1) },
			"another position": func() string { return strings.Replace(list.String(), ",members,1\n", ",members,21\n", 1) },
			"without lanes": func() string {
				return strings.NewReplacer("lane,", "", "members,", "", "all,", "").Replace(list.String())
			},
		} {
			if _, err := draw.Verify(strings.NewReader(change())); err == nil {
				t.Errorf("%s passes", what)
			}
			if out, err := verify(t, change()); err == nil || !strings.Contains(out, "WRONG") {
				t.Errorf("%s passes the stranger's check:\n%s", what, out)
			}
		}
		h.verify()
	})
}

// W17, W19: over all lanes no more units are promised than are free, and whoever was certain gets a unit, whoever joins the other lanes.
func TestStrictBoundWithLanes(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.shop.free = 60
		h.open(func(d *waitingroom.Definition) {
			d.Lanes, d.Capacity = []waitingroom.Lane{{Name: "members", Share: 90, Tier: "member"}, {Name: "all", Share: 10}}, 3
		})
		var everybody, certain []string
		outlook := make(map[string]waitingroom.Outlook)
		for round := 0; h.shop.free > 0; round++ {
			if round > 200 {
				t.Fatalf("%d units are left", h.shop.free)
			}
			join := func(who string, v waitingroom.Visitor, quantity int) {
				h.joinAs(quantity, v)
				everybody = append(everybody, who)
			}
			for i := range 10 {
				if who := fmt.Sprint("early ", i); round == 0 {
					join(who, user(who), 1)
				}
				if who := fmt.Sprint("member ", round, i); i == 0 || round == 0 { // they go on coming, and want more
					join(who, member(who), 4)
				}
			}
			h.later(time.Second)
			for _, who := range everybody {
				p := h.place(who)
				if p.State == waitingroom.StateWaiting && p.Outlook == waitingroom.OutlookCertain && outlook[who] == "" {
					certain = append(certain, who)
					outlook[who] = p.Outlook
				}
				if p.State != waitingroom.StateTurn {
					continue
				}
				if _, err := outcome(h.rooms.Claim(t.Context(), name, user(who))); err != nil {
					t.Fatal(err)
				}
				if admitted, got := h.shop.order(who); !admitted || !got {
					t.Fatalf("%s was admitted: %t, and got a unit: %t", who, admitted, got)
				}
			}
		}
		h.later(20 * time.Second)
		if len(certain) == 0 {
			t.Error("nobody was certain")
		}
		for _, who := range certain {
			if p := h.place(who); p.State != waitingroom.StateDone {
				t.Errorf("%s was certain, and is %+v", who, p)
			}
		}
	})
}

// A crowd of places that were given up in one lane delays nobody in it or in another for more than some ticks. Until it is over, no turn is given:
// somebody behind it may be next, and other lanes would get more turns before that place than its outlook counts.
func TestDeadHeadsOfALane(t *testing.T) {
	onPostgres(t, func(t *testing.T, h *house) {
		h.open(func(d *waitingroom.Definition) { d.Sale, d.Item, d.RatePerMin, d.Lanes = "", "", 600, membersAndAll })
		h.crowdIn("members", 29_000, "left_at", 1)
		h.joinAs(1, member("mia"))
		h.join("ann")
		for range 2 {
			h.later(time.Second)
			if a := h.place("ann").State; a != waitingroom.StateWaiting {
				t.Errorf("ann is %s", a)
			}
		}
		h.later(time.Second)
		if m, a := h.place("mia").State, h.place("ann").State; m != waitingroom.StateTurn || a != waitingroom.StateTurn {
			t.Errorf("mia is %s, ann is %s", m, a)
		}
	})
}

// leafOf returns the leaf of the fields of a list's line, in hexadecimal.
func leafOf(t *testing.T, fields []string) string {
	t.Helper()
	e := draw.Entry{Subject: fields[1], Lane: fields[3]}
	if _, err := fmt.Sscan(fields[0]+" "+fields[2], &e.Index, &e.JoinedMS); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", e.Leaf(name))
}
