package store

import (
	"fmt"

	"github.com/tidegate/tidegate/internal/stock"
	"github.com/tidegate/tidegate/waitingroom/draw"
)

// Room is a row of waiting_rooms, with the end of the queue from waiting_tails.
type Room struct {
	Terms Terms
	Saved Saved
}

// Version is different after each change of a room, and of the end of its queue, than at any time before.
type Version struct {
	Room, Version string
	Now           int64 // when it was read, in Unix ms of the database's clock
}

// Terms are the columns of a room's definition, without its lanes. Times are Unix ms.
type Terms struct {
	Room, Sale, Item, Mode, Bound, Beacon string
	GatherAt, StartsAt, ClaimMS, PassMS   int64
	Capacity, RatePerMin                  int
	RequiresUser, Captcha                 bool
	Page                                  Page
}

// Page is the column of a room's page.
type Page struct {
	Title       string `json:"title,omitempty"`
	Shop        string `json:"shop,omitempty"`
	LogoURL     string `json:"logo_url,omitempty"`
	ContinueURL string `json:"continue_url,omitempty"`
	SignInURL   string `json:"sign_in_url,omitempty"`
}

// Saved are the other columns of a room, and the end of its queue. Times are Unix ms of the database's clock.
type Saved struct {
	Message string
	Held    bool
	Ended   string // exhausted or closed; empty: neither
	EndedAt int64

	// Read from the stock by ticks, unless Stalled.
	Stalled     bool
	Sale        stock.SaleState
	Free, LagMS int64 // units, and how long accepted orders wait for their commit

	// Room time stands still since StoppedAt, and has stood still for StoppedMS before.
	StoppedAt, StoppedMS, TickedAt int64

	// Of the controller.
	Credit          float64
	Extra, Promised int64   // turns given by operators that are left, and units of turns and passes that may still be used
	Brake           float64 // which part of its turns the room gives, because commits are slow; 1: all

	// Of the draw.
	Secret, Salt, Commit, Root string // in hexadecimal, but for the salt of subjects
	NDrawn, DrawnAt            int64
	Beacon                     draw.Beacon

	Joined, Gathered, MostQuantity int64  // of the end of the queue
	Lanes                          []Lane // at least one; their numbers add up to those of the room
	Now                            int64  // when the row was read

	// LastActive is the room time at which the last turn and pass end, or have ended; 0: there was none. Only Rooms reads it. Whatever
	// changes it changes the version of the room.
	LastActive int64
}

// Lane is a lane as the row of the room holds it, with the part that the row of the tail holds.
type Lane struct {
	Name        string  `json:"lane"` // empty: the only one of a room without lanes
	Share       int     `json:"share"`
	Tier        string  `json:"tier,omitempty"`
	Served      int64   `json:"served"` // positions below it have had their turn
	Drawn       int64   `json:"drawn"`  // places that were drawn
	VirtualTime float64 `json:"pass"`
	Tail        Tail    `json:"-"`
}

// Tail is the end of a lane. The row that holds it is locked by those who join.
type Tail struct {
	Name     string `json:"lane"`
	Joined   int64  `json:"joined"`   // the last number given in the lane
	Gathered int64  `json:"gathered"` // in mode draw those up to this number are drawn: the last one given before the start
}

// TailsOf returns what the row of the tail holds of lanes.
func TailsOf(lanes []Lane) []Tail {
	all := make([]Tail, len(lanes))
	for i := range lanes {
		all[i] = lanes[i].Tail
	}
	return all
}

// SetTails sets that part of the lanes. It returns an error if they are not as many.
func (s *Saved) SetTails(room string, tails []Tail) error {
	if len(tails) != len(s.Lanes) {
		return fmt.Errorf("room %s has %d lanes, and its tail %d", room, len(s.Lanes), len(tails))
	}
	for i := range tails {
		s.Lanes[i].Tail = tails[i]
	}
	return nil
}

// Act is what an operator did to a room.
type Act struct {
	At                                    int64 // Unix ms
	Act, Detail, Actor, Reason, RequestID string
}
