package waitingroom_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/waitingroom"
)

func TestPageOfARoom(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(d *waitingroom.Definition) { d.GatherAt = d.StartsAt })
		d := h.status().Definition
		put := func(p waitingroom.Page) error {
			t.Helper()
			d.Page = p
			s, _, err := h.rooms.Put(t.Context(), d)
			if err == nil && s.Page != p {
				t.Errorf("%+v was stored as %+v", p, s.Page)
			}
			return err
		}
		for link, ok := range map[string]bool{
			"https://shop.example/buy?x=1#y": true, "/buy": true, "http://127.0.0.1:9000/": true, "http://localhost/": true, "http://[::1]:80/": true, "": true,
			"http://shop.example/": false, "javascript:alert(1)": false, "//evil.example/": false, "///evil.example/": false, `/\evil.example/`: false, `\\evil.example`: false, "buy": false,
			"data:text/html,x": false, "https:///x": false, "https://a@shop.example/": false, "/\x00": false, "https://shop.example/" + strings.Repeat("x", 2000): false, " https://shop.example": false,
		} {
			for _, p := range []waitingroom.Page{{ContinueURL: link}, {LogoURL: link}, {SignInURL: link}} {
				if err := put(p); (err == nil) != ok || err != nil && !errors.Is(err, waitingroom.ErrInvalid) {
					t.Errorf("%.40q: %v", link, err)
				}
			}
		}
		for text, ok := range map[string]bool{"Schuhe & mehr ✓": true, strings.Repeat("x", 200): true, strings.Repeat("x", 201): false, "a\nb": false, "\xff": false} {
			for _, p := range []waitingroom.Page{{Title: text}, {Shop: text}} {
				if err := put(p); (err == nil) != ok {
					t.Errorf("%.40q: %v", text, err)
				}
			}
		}
	})
}

// Whoever has a place keeps it when the operator puts off the time from which on people may join.
func TestALaterGathering(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(d *waitingroom.Definition) { d.Mode, d.StartsAt = waitingroom.ModeDraw, time.Now().Add(time.Hour) })
		first := h.joined("ann")
		d := h.status().Definition
		d.GatherAt = time.Now().Add(time.Minute)
		if _, _, err := h.rooms.Put(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if again := h.joined("ann"); again.Number != first.Number || again.Receipt == "" {
			t.Errorf("%+v, and then %+v", first, again)
		}
		if _, no, err := h.rooms.Join(t.Context(), name, user("bob"), 1); refused(no, err) != waitingroom.ReasonNotStarted {
			t.Errorf("somebody new: %v", err)
		}
	})
}
