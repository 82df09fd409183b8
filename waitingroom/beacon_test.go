package waitingroom_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/waitingroom"
	"github.com/tidegate/tidegate/waitingroom/draw"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// drawWithBeacon opens a room that draws in a minute, in which ten people have joined, and returns its round.
func (h *house) drawWithBeacon() *waitingroom.Beacon {
	h.Helper()
	h.open(func(d *waitingroom.Definition) {
		d.Mode, d.StartsAt, d.Beacon = waitingroom.ModeDraw, time.Now().Add(time.Minute), draw.Drand
	})
	h.join(people(10)...)
	return h.draw().Beacon
}

func (h *house) draw() *waitingroom.Draw {
	h.Helper()
	return h.status().Draw
}

// Nobody can know the order while the list can still be changed: the root is published before the round is signed, and the draw waits for it.
func TestBeacon(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		named := h.drawWithBeacon()
		if after := named.At.Sub(h.status().StartsAt); after < 10*time.Second || after > 13*time.Second || named.Signature != "" {
			t.Errorf("the round is signed %v after the start: %+v", after, named)
		}
		set := func(round int64, signature string) error {
			_, err := h.rooms.SetBeacon(t.Context(), name, round, signature, waitingroom.Cause{Actor: "ann"})
			return err
		}
		if err := set(named.Round, waitingroom.Sign(named.Round)); !errors.Is(err, waitingroom.ErrConflict) {
			t.Errorf("before the start: %v", err)
		}
		h.jump(time.Minute)
		h.later(2 * time.Second)
		h.join("late")
		listed := h.draw()
		if listed.Root == "" || listed.N != 10 || listed.Seed+listed.Secret != "" || listed.Beacon.Round != named.Round {
			t.Errorf("before the round: %+v, beacon %+v", listed, listed.Beacon)
		}
		if p := h.place("user-3"); p.State != waitingroom.StateGathering || p.Position != 0 {
			t.Errorf("before the round: %+v", p)
		}
		for what, err := range map[string]error{
			"another round's signature": set(named.Round, waitingroom.Sign(named.Round+1)), "none": set(named.Round, ""),
		} {
			if !errors.Is(err, waitingroom.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := set(named.Round+1, waitingroom.Sign(named.Round+1)); !errors.Is(err, waitingroom.ErrConflict) {
			t.Errorf("another round: %v", err)
		}
		h.later(20 * time.Second)
		if d := h.draw(); d.Seed != "" {
			t.Errorf("drawn without the round: %+v", d)
		}
		for range 2 {
			if err := set(named.Round, strings.ToUpper(waitingroom.Sign(named.Round))); err != nil {
				t.Fatal(err)
			}
		}
		h.later(2 * time.Second)
		d := h.draw()
		if d.Root != listed.Root || d.Commitment != listed.Commitment || d.Seed == "" || d.Beacon.Signature != waitingroom.Sign(named.Round) {
			t.Errorf("after the round: %+v, beacon %+v", d, d.Beacon)
		}
		if p := h.place("late"); p.Position != 11 {
			t.Errorf("who came after the list was complete: %+v", p)
		}
		if err := set(named.Round, waitingroom.Sign(named.Round)); err != nil {
			t.Errorf("again, after the draw: %v", err)
		}
		h.verify()
		h.amend(name, func(r *store.Room) { r.Saved.Beacon.Signature = waitingroom.Sign(named.Round + 1) })
		checks, err := h.rooms.Verify(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range checks {
			if c.OK != (c.Name != "draw") {
				t.Errorf("with a signature that is not the round's: %+v", c)
			}
		}
	})
}

// Whoever has the list sees that its order is of the round, and that the round came after the list.
func TestVerifyBeacon(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		named := h.drawWithBeacon()
		h.jump(time.Minute)
		h.later(2 * time.Second)
		if _, err := h.rooms.SetBeacon(t.Context(), name, named.Round, waitingroom.Sign(named.Round), waitingroom.Cause{}); err != nil {
			t.Fatal(err)
		}
		h.later(2 * time.Second)
		var list bytes.Buffer
		if err := h.rooms.WriteDraw(t.Context(), name, &list); err != nil {
			t.Fatal(err)
		}
		drawn, err := draw.Verify(bytes.NewReader(list.Bytes()))
		if err != nil || drawn.N != 10 || drawn.Beacon.Round != named.Round {
			t.Errorf("%+v, %v", drawn, err)
		}
		if out, err := verify(t, list.String()); err != nil || strings.Contains(out, "WRONG") || !strings.Contains(out, fmt.Sprint("signature of round ", named.Round)) {
			t.Errorf("%v:\n%s", err, out)
		}
		lines := strings.SplitAfter(list.String(), "\n")
		if !strings.HasPrefix(lines[3], "beacon,drand\n") || !strings.HasPrefix(lines[7], "signature,") {
			t.Fatalf("%q", lines)
		}
		var starts int64
		if _, err := fmt.Sscanf(lines[4], "starts_ms,%d", &starts); err != nil {
			t.Fatal(err)
		}
		for what, tt := range map[string]struct {
			line int
			text string
			want string
		}{
			"no beacon":                 {3, "", `must begin with "root,"`},
			"unknown beacon":            {3, "beacon,dice\n", "beacon must be drand"},
			"no start":                  {4, "starts_ms,\n", "starts_ms must be a number"},
			"another start":             {4, fmt.Sprintf("starts_ms,%d\n", starts-6000), "not " + fmt.Sprint(named.Round)},
			"a start after the list":    {4, fmt.Sprintf("starts_ms,%d\n", starts+60_000), "before the start"},
			"a list after the round":    {5, fmt.Sprintf("listed_ms,%d\n", named.At.UnixMilli()+1), "not " + fmt.Sprint(named.Round)},
			"no time":                   {5, "listed_ms,\n", "listed_ms must be a number"},
			"a round that was chosen":   {6, fmt.Sprintf("round,%d\n", named.Round+1000), fmt.Sprint("not ", named.Round+1000)},
			"no round":                  {6, "round,x\n", "round must be a number"},
			"no signature":              {7, "signature,\n", "not the signature of round"},
			"another round's signature": {7, "signature," + waitingroom.Sign(named.Round+1) + "\n", "not the signature of round"},
		} {
			changed := strings.Join(lines[:tt.line], "") + tt.text + strings.Join(lines[tt.line+1:], "")
			if _, err := draw.Verify(strings.NewReader(changed)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want %s", what, err, tt.want)
			}
		}
		if _, err := draw.Verify(strings.NewReader(strings.Join(lines[:3], "") + strings.Join(lines[8:], ""))); err == nil || !strings.Contains(err.Error(), "the seed must be") {
			t.Errorf("without its beacon: %v", err)
		}
	})
}

// A list that is complete only when the round may be known gets a later one.
func TestALateList(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		named := h.drawWithBeacon()
		h.jump(time.Hour) // nothing ran at the start
		h.later(2 * time.Second)
		if late := h.draw().Beacon; late.Round <= named.Round || late.At.Before(h.at) || late.At.After(h.at.Add(15*time.Second)) {
			t.Errorf("round %d at %v, after round %d", late.Round, late.At, named.Round)
		}
	})
}

// Processes ask relays for a round when it has been signed, and believe only its signature.
func TestBeaconsAreFetched(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		asked := make(chan int64, 100)
		answers := make(chan string, 3)
		h.relay = func(_ context.Context, round int64) (string, error) {
			asked <- round
			if answer := <-answers; answer != "" {
				return answer, nil
			}
			return "", errors.New("no answer")
		}
		named := h.drawWithBeacon()
		h.jump(time.Minute)
		h.later(2 * time.Second)
		h.rooms.FetchBeacons(t.Context())
		if len(asked) > 0 {
			t.Errorf("asked for round %d before it was signed", <-asked)
		}
		h.jump(named.At.Sub(h.at))
		for _, answer := range []string{"", waitingroom.Sign(named.Round + 1), waitingroom.Sign(named.Round)} {
			if d := h.draw(); d.Beacon.Signature != "" {
				t.Errorf("%+v", d.Beacon)
			}
			answers <- answer
			h.rooms.FetchBeacons(t.Context())
			if round := <-asked; round != named.Round {
				t.Errorf("asked for round %d, want %d", round, named.Round)
			}
		}
		h.later(2 * time.Second)
		if d := h.draw(); d.Seed == "" || d.Beacon.Signature != waitingroom.Sign(named.Round) {
			t.Errorf("%+v, beacon %+v", d, d.Beacon)
		}
		h.rooms.FetchBeacons(t.Context())
		if len(asked) > 0 {
			t.Error("asked again")
		}
	})
}

func TestBeaconDefinitions(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.drawWithBeacon()
		d := waitingroom.Definition{
			Room: name, Sale: "spring", Item: "shoe", Mode: waitingroom.ModeDraw, GatherAt: time.Now(), StartsAt: time.Now().Add(time.Hour),
			ClaimWindow: time.Minute, PassLifetime: time.Minute, Bound: waitingroom.BoundStrict, RequiresUser: true,
		}
		if _, _, err := h.rooms.Put(t.Context(), d); !errors.Is(err, waitingroom.ErrConflict) {
			t.Errorf("a beacon that is taken away after people joined: %v", err)
		}
		d.Room, d.Beacon = "other", "dice"
		if _, _, err := h.rooms.Put(t.Context(), d); !errors.Is(err, waitingroom.ErrInvalid) {
			t.Errorf("an unknown beacon: %v", err)
		}
		d.Mode, d.Beacon = waitingroom.ModeFIFO, draw.Drand
		if _, _, err := h.rooms.Put(t.Context(), d); !errors.Is(err, waitingroom.ErrInvalid) {
			t.Errorf("a beacon without a draw: %v", err)
		}
		if _, err := h.rooms.SetBeacon(t.Context(), "nowhere", 1, waitingroom.Sign(1), waitingroom.Cause{}); !errors.Is(err, waitingroom.ErrUnknownRoom) {
			t.Errorf("of an unknown room: %v", err)
		}
	})
}
