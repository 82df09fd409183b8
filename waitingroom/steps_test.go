package waitingroom_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidegate/tidegate/waitingroom"
)

// steps returns what happened to a user's places, a line each, with seconds since the first.
func (h *house) steps(who string) string {
	h.Helper()
	places, err := h.rooms.Places(h.Context(), name, waitingroom.Filter{User: who, Limit: 10})
	if err != nil {
		h.Fatal(err)
	}
	var text strings.Builder
	for _, p := range places {
		for _, s := range p.Steps {
			fmt.Fprintf(&text, "%d +%.0f %s|%s|%s\n", p.Number, s.At.Sub(places[0].Steps[0].At).Seconds(), s.What, s.By, s.Cause)
		}
	}
	return text.String()
}

// W31: the history of a place has each step with its time and cause, and who held or barred it.
func TestHistoryOfAPlace(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.shop.free = 1
		h.banned = map[string]string{"eve": "banned"}
		h.open(func(*waitingroom.Definition) {})
		h.join("eve", "ann", "bob", "cem", "dan")
		h.later(2 * time.Second)
		if _, err := h.rooms.Hold(t.Context(), name, waitingroom.Cause{Actor: "olga", Reason: "the shop is slow"}); err != nil {
			t.Fatal(err)
		}
		h.later(100 * time.Second)
		if _, err := h.rooms.Resume(t.Context(), name, waitingroom.Cause{Actor: "pia"}); err != nil {
			t.Fatal(err)
		}
		h.later(62 * time.Second) // ann's turn lapses
		if _, err := outcome(h.rooms.Claim(t.Context(), name, user("bob"))); err != nil {
			t.Fatal(err)
		}
		h.shop.order("bob")
		h.join("ann")
		if err := h.rooms.Leave(t.Context(), name, user("dan")); err != nil {
			t.Fatal(err)
		}
		h.later(2 * time.Second)
		h.shop.free = 1
		h.later(2 * time.Second) // cem's turn
		if _, err := outcome(h.rooms.Claim(t.Context(), name, user("cem"))); err != nil {
			t.Fatal(err)
		}
		h.later(62 * time.Second)
		if _, err := h.rooms.Close(t.Context(), name, waitingroom.Cause{Actor: "olga", Reason: "enough"}); err != nil {
			t.Fatal(err)
		}
		h.later(62 * time.Second) // the end of the turn that was open adds nothing
		for who, want := range map[string]string{
			"eve": "1 +0 joined||\n1 +2 barred|rule x|banned\n",
			"ann": "2 +0 joined||\n2 +2 turn||the position was reached\n2 +2 held|olga|the shop is slow\n2 +102 resumed|pia|\n" +
				"2 +162 lapsed||the turn was not claimed in time\n2 +164 replaced||the visitor joined again\n" +
				"6 +164 joined||\n6 +230 turn||the position was reached\n6 +230 lapsed|olga|enough\n",
			"bob": "3 +0 joined||\n3 +2 held|olga|the shop is slow\n3 +102 resumed|pia|\n3 +162 turn||the position was reached\n" +
				"3 +164 admitted||the turn was claimed\n3 +166 done||order order of bob\n",
			"cem": "4 +0 joined||\n4 +2 held|olga|the shop is slow\n4 +102 resumed|pia|\n4 +168 turn||the position was reached\n" +
				"4 +168 admitted||the turn was claimed\n4 +228 lapsed||the pass was not used in time\n",
			"dan": "5 +0 joined||\n5 +2 held|olga|the shop is slow\n5 +102 resumed|pia|\n5 +164 left||the place was given up\n",
		} {
			if diff := cmp.Diff(want, h.steps(who)); diff != "" {
				t.Errorf("%s: %s", who, diff)
			}
		}
		if all, err := h.rooms.Places(t.Context(), name, waitingroom.Filter{Limit: 10}); err != nil || all[0].Steps != nil {
			t.Errorf("%+v, %v", all[0], err)
		}
	})
}

// An act with the id of an earlier one is not done again, whoever repeats it and however many acts were in between.
func TestARepeatedActIsDoneOnce(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(d *waitingroom.Definition) { d.Sale, d.Item = "", "" }) // turns by Advance only
		h.join(people(9)...)
		once := waitingroom.Cause{Actor: "olga", RequestID: "1"}
		for range 3 {
			if _, err := h.rooms.Advance(t.Context(), name, 2, once); err != nil {
				t.Fatal(err)
			}
			h.later(time.Second)
		}
		if _, err := h.process().Advance(t.Context(), name, 2, waitingroom.Cause{RequestID: "2"}); err != nil {
			t.Fatal(err)
		}
		h.later(time.Second)
		if s := h.status(); s.Served != 4 {
			t.Errorf("served %d", s.Served)
		}
		for what, act := range map[string]func() (waitingroom.Status, error){
			"another number": func() (waitingroom.Status, error) { return h.rooms.Advance(t.Context(), name, 3, once) },
			"another act":    func() (waitingroom.Status, error) { return h.rooms.Hold(t.Context(), name, once) },
		} {
			if _, err := act(); !errors.Is(err, waitingroom.ErrConflict) || errors.Is(err, waitingroom.ErrUnavailable) {
				t.Errorf("%s: %v", what, err)
			}
		}
		for _, by := range []waitingroom.Cause{{Reason: strings.Repeat("x", 256)}, {RequestID: "\x00"}} {
			if _, err := h.rooms.Advance(t.Context(), name, 1, by); !errors.Is(err, waitingroom.ErrInvalid) {
				t.Errorf("%+v: %v", by, err)
			}
		}
		if _, err := h.rooms.Advance(t.Context(), name, -1, waitingroom.Cause{}); !errors.Is(err, waitingroom.ErrInvalid) {
			t.Error(err)
		}
	})
}
