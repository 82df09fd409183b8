package waitingroom

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/keyhash"
	"github.com/tidegate/tidegate/waitingroom/draw"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// view is what this process has computed from its copy of a room. It is immutable except for what mu guards, asOf and usage; a refresh
// makes a new one if the room has changed.
type view struct {
	room    room                   // as it was read
	version string                 // of the room, not newer than what was read
	read    time.Time              // when, by this process's clock
	asOf    atomic.Pointer[moment] // the latest at which the database had this version
	usage   *usage                 // shared by all views of the room
	changed chan struct{}          // closed when visitors learn something from a newer one
	// by lane: positions by number, of places that left or were barred and that the cursor has not passed; before the draw without meaning
	skipped []map[int64]int64
	early   [][]int64 // by lane: positions in order, of places that were given up before the draw
	// by number: the room time until which the pass of a place would be valid that was given up or, in a room without a sale, is done
	revoked  map[int64]int64
	moved    []*progress  // by lane
	subjects *keyhash.Key // makes the hashes of visitors
	quota    int64        // units that a user may order; 0: not known, or not needed
	seed     string       // of the draw, in hexadecimal; empty before it

	mu     *sync.Mutex
	orders []draw.Order // by lane; guarded by mu, and shared by the views of one draw
}

// laneOf returns the index of a place's lane. A view may be older than the lanes of a room without places: any will do then, for a moment.
func (v *view) laneOf(p *store.Place) int { return max(0, v.room.laneIndex(p.Lane)) }

// position returns the position of a number of a lane.
func (v *view) position(lane int, number int64) int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.orders[lane].Position(number)
}

func (v *view) isSkipped(p *store.Place) bool {
	_, gone := v.skipped[v.laneOf(p)][p.LaneNumber]
	return gone
}

// waiting returns how many places of a lane have not had their turn.
func (v *view) waiting(lane int) int64 {
	l := &v.room.saved.Lanes[lane]
	return max(0, l.Tail.Joined-l.Served-int64(len(v.skipped[lane])))
}

// ahead returns how many places of a lane are in front of a position and have not had their turn. It leaves out those that were
// given up before the draw, and no later ones: processes learn of these at different times, and the number must not rise.
func (v *view) ahead(lane int, position, served int64) int64 {
	from, _ := slices.BinarySearch(v.early[lane], served)
	to, _ := slices.BinarySearch(v.early[lane], position)
	return max(0, position-served-int64(max(0, to-from)))
}

// servedFor returns the cursor of a place's lane: that of another process if it was seen to be further on.
func (v *view) servedFor(p *store.Place) int64 {
	return max(v.room.saved.Lanes[v.laneOf(p)].Served, p.Seen-1)
}

// moment is a time by the database's clock, and by that of this process.
type moment struct {
	now   int64 // Unix ms
	local time.Time
}

// clockNow estimates the database's clock.
func (v *view) clockNow(local time.Time) int64 {
	at := v.asOf.Load()
	return at.now + local.Sub(at.local).Milliseconds()
}

// stale reports that the database has not answered for so long that the view is no basis for an answer.
func (v *view) stale(local time.Time) bool { return local.Sub(v.asOf.Load().local) > staleAfter }

const staleAfter = 3 * time.Second

// outlook returns the prospect of a place with so many of its lane in front. Other lanes get turns meanwhile, also for people who
// have not joined yet: as many as the shares permit, each for as many units as anybody may order.
func (v *view) outlook(lane int, ahead int64) Outlook {
	if v.room.def.Sale == "" || v.room.saved.TickedAt == 0 { // no stock, or it has not been read yet
		return OutlookLikely
	}
	probable, most := ahead, (ahead+1)*v.room.saved.MostQuantity
	known := len(v.room.saved.Lanes) == 1 || v.quota > 0
	for i := range v.room.saved.Lanes {
		if i == lane {
			continue
		}
		turns := turnsBefore(&v.room.saved.Lanes[lane], &v.room.saved.Lanes[i], ahead+1)
		probable += min(turns, v.waiting(i))
		most += turns * max(v.quota, v.room.saved.MostQuantity)
	}
	switch {
	case v.room.saved.Free <= 0:
		return OutlookReturns
	case v.room.def.Bound == BoundStrict && known && v.room.served() > 0 && most+v.room.saved.Promised <= v.room.saved.Free:
		return OutlookCertain
	case probable+v.room.saved.Promised < v.room.saved.Free:
		return OutlookLikely
	}
	return OutlookUnlikely
}

// promise returns the prospect of a turn or pass that is used in time.
func (r *room) promise() Outlook {
	if r.def.Sale != "" && r.def.Bound == BoundExpected {
		return OutlookLikely
	}
	return OutlookCertain
}
