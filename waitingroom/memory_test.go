package waitingroom_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/tidegate/tidegate/waitingroom"
)

// heap returns how many bytes are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// W34: places that gather, are drawn and wait cost a process no memory: what they need is in the database.
func TestPlacesCostNoMemory(t *testing.T) {
	onPostgres(t, func(t *testing.T, h *house) {
		h.open(func(d *waitingroom.Definition) {
			d.Mode, d.StartsAt, d.Capacity = waitingroom.ModeDraw, time.Now().Add(time.Minute), 10
		})
		h.join("ann")
		before := heap()
		const places = 60_000 // beside which the translated statements are few
		h.crowd(places, "", nil)
		for _, step := range []struct {
			what string
			by   time.Duration
		}{{"gather", 0}, {"are drawn", time.Minute}, {"wait", 2 * time.Second}} {
			h.tick(step.by)
			if grown := heap() - before; grown > 4*places {
				t.Errorf("while they %s, %d places take %d bytes", step.what, places, grown)
			}
		}
		if s := h.status(); s.Draw.N != places+1 || s.Served == 0 {
			t.Errorf("%+v", s)
		}
	})
}
