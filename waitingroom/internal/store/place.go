package store

// Place is a row of waiting_places. Times are Unix ms, those in room time end in RT.
type Place struct {
	Number, JoinedAt                  int64
	Lane                              string
	LaneNumber                        int64 // the number within the lane
	Subject, User                     string
	Quantity                          int
	Position                          int64 // -1 before the turn
	TurnRT, UntilRT, AdmittedAt       int64
	PassRT, DoneAt, LeftAt, ChangedAt int64
	TurnAt, LapsedAt                  int64
	OrderID, Barred, BarredBy         string
	Replaced                          bool
	Again                             int // places that the subject gave up in a row before

	// Of a copy, and not stored.
	Seen   int64 // the cursor of the lane at the latest that is known of, plus 1; 0: not known, or before the draw
	OfUser bool  // of a token: the place is a user's; others know it by User
}

// Joiner is somebody who gets a place.
type Joiner struct {
	Number     int64  `json:"seq"`
	Lane       string `json:"lane"`
	LaneNumber int64  `json:"lane_seq"`
	Subject    string `json:"subject"`
	User       string `json:"account"`
	Quantity   int    `json:"quantity"`
	Again      int    `json:"again"`
}

// QueueEnd is the end of a room's queue, whose row is locked.
type QueueEnd struct {
	Joined, Gathered int64
	Lanes            []Tail
	Now              int64
}

// Turn is a turn for the current place of a subject.
type Turn struct {
	Subject  string `json:"subject"`
	Position int64  `json:"position"`
	Quantity int64  `json:"quantity"`
}

// Counts are counts of a room's places.
type Counts struct {
	Open, OpenUnits     int64 // turns that can still be claimed
	Active, ActiveUnits int64 // passes that can still be used
	Claimed             int64 // since Moments.ClaimedAfter
	Fresh               int64 // open turns younger than Moments.Fresh
	Given, Taken        int64 // turns given from Moments.Past to Moments.Fresh, and how many of those were claimed
	Lapsing             int64 // places that lapsed, and are not recorded as such
	Over, Used          int64 // turns whose time to claim ended since Moments.Over, and how many of those were claimed
}

// Moments are the times that Count needs, all but the last in room time. Places whose turn or pass ended before Past are not counted.
type Moments struct{ Now, PassOver, Fresh, Past, Over, ClaimedAfter int64 }

// LaneCounts are counts of a lane's places.
type LaneCounts struct {
	Places, First, Last       int64 // first and last number in the lane
	Turns, Positions, Highest int64 // of places that had a turn
	Skipped                   int64 // places that left or were barred before
	LowestNumber, LastNumber  int64 // in the room
	Current                   int64 // places that are not replaced
}

// Census is what all rows of a room show of its places at one moment.
type Census struct {
	Lanes    []Lane
	Joined   int64
	ByLane   map[string]LaneCounts // lanes without places are missing
	Subjects int64                 // with a current place
}
