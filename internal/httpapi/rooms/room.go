package rooms

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/internal/httpapi/document"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/waitingroom"
)

// RoomName is the parameter that names a room.
type RoomName struct {
	Room string `path:"room" doc:"Name of the room"`
}

// RoomView is a room in responses to everybody.
type RoomView struct {
	_ struct{} `additionalProperties:"true"`

	Room       string            `json:"room"`
	Phase      waitingroom.Phase `json:"phase" enum:"scheduled,gathering,serving,held,recovering,exhausted,closed" doc:"held: by an operator, or while the sale is paused or has not started. exhausted, and closed, by an operator or with the sale, are final"`
	Now        time.Time         `json:"now" doc:"The clock that the room follows"`
	Sale       string            `json:"sale,omitempty"`
	Item       string            `json:"item,omitempty"`
	GatherAt   time.Time         `json:"gather_at" doc:"From which on people may join"`
	StartsAt   time.Time         `json:"starts_at" doc:"When turns begin; in mode draw, when the order is drawn, or with a beacon when the list of those who take part ends"`
	Served     int64             `json:"served" doc:"Positions that have had their turn, of all lanes; never falls"`
	Joined     int64             `json:"joined" doc:"Places that were given"`
	Waiting    int64             `json:"waiting" doc:"Places that have not had their turn"`
	RatePerMin int               `json:"rate_per_min" doc:"Most turns claimed in a minute; 0: not bounded"`
	Stock      *int64            `json:"stock,omitempty" doc:"Units that are free, in a room of a sale, from gather_at on"`
	Message    string            `json:"message,omitempty" doc:"From the operator; without one, why the room stands still or has ended with its sale"`
	Poll       pollView          `json:"poll"`
	Draw       *DrawView         `json:"draw,omitempty" doc:"In mode draw"`
	Lanes      []laneView        `json:"lanes,omitempty" doc:"Of a room with lanes, which served, joined and waiting are the sums of"`

	PageView
}

// PageView is what the page of a room shows, in requests and responses.
type PageView struct {
	Title       string `json:"title,omitempty" maxLength:"200" doc:"Of the page. Default: the item or the room"`
	Shop        string `json:"shop,omitempty" maxLength:"200" doc:"Name of the shop, on the page"`
	LogoURL     string `json:"logo_url,omitempty" maxLength:"2000" doc:"An image, on the page: https, or a path, on the origin of the page"`
	ContinueURL string `json:"continue_url,omitempty" maxLength:"2000" doc:"Where the page sends whoever is admitted: https, or a path, on the origin of the page. Without it there is no page"`
	SignInURL   string `json:"sign_in_url,omitempty" maxLength:"2000" doc:"Where the page sends whoever has to sign in first: https, or a path, on the origin of the page"`
}

// laneView is a lane in responses.
type laneView struct {
	_ struct{} `additionalProperties:"true"`

	Lane    string `json:"lane"`
	Share   int    `json:"share" doc:"While people wait in two lanes, their turns are in the ratio of their shares"`
	Tier    string `json:"tier,omitempty" doc:"Only callers of this tier may join"`
	Served  int64  `json:"served" doc:"Positions that have had their turn; never falls"`
	Joined  int64  `json:"joined"`
	Waiting int64  `json:"waiting"`
}

type pollView struct {
	_ struct{} `additionalProperties:"true"`

	NearMS int64 `json:"near_ms" doc:"How often to read a place that is next"`
	FarMS  int64 `json:"far_ms" doc:"How often to read a place that is far behind"`
}

// DrawView is a draw in responses, as far as it is published.
type DrawView struct {
	_ struct{} `additionalProperties:"true"`

	Commitment string      `json:"commitment" doc:"SHA-256 of the secret, in hexadecimal"`
	Root       *string     `json:"root" doc:"Of the Merkle tree of all who take part; null before starts_at"`
	N          *int64      `json:"n" doc:"How many take part; null before starts_at"`
	Seed       *string     `json:"seed" doc:"The SHA-256 of \"tidegate draw\\n\", secret and root; with a beacon, of \"tidegate draw with beacon\\n\", secret, root and signature. null before the draw"`
	Secret     *string     `json:"secret" doc:"null before the draw"`
	Beacon     *beaconView `json:"beacon,omitempty" doc:"In a room with a beacon: the public random value that the draw depends on and waits for"`
}

type beaconView struct {
	_ struct{} `additionalProperties:"true"`

	Network   string    `json:"network" enum:"quicknet" doc:"Of drand"`
	Chain     string    `json:"chain" doc:"Hash of the network, which is part of the URLs of its rounds"`
	Round     int64     `json:"round" doc:"Changes with starts_at, and if the list of those who take part is complete only when the round is near"`
	At        time.Time `json:"at" doc:"When the round is signed, after which the order is drawn"`
	Signature *string   `json:"signature" doc:"Of the round, in hexadecimal; null before"`
}

func viewRoom(s *waitingroom.Status) RoomView {
	v := RoomView{
		Room: s.Room, Phase: s.Phase, Now: response.Instant(s.Now), Sale: s.Sale, Item: s.Item, GatherAt: response.Instant(s.GatherAt),
		StartsAt: response.Instant(s.StartsAt), Served: s.Served, Joined: s.Joined,
		Waiting: s.Waiting, RatePerMin: s.RatePerMin, Message: s.Message,
		Stock: s.Free, Poll: pollView{NearMS: waitingroom.PollNear.Milliseconds(), FarMS: waitingroom.PollFar.Milliseconds()},
		PageView: PageView(s.Page),
	}
	if len(s.Lanes) > 0 {
		for _, l := range s.ByLane {
			v.Lanes = append(v.Lanes, laneView{Lane: l.Name, Share: l.Share, Tier: l.Tier, Served: l.Served, Joined: l.Joined, Waiting: l.Waiting})
		}
	}
	if d := s.Draw; d != nil {
		v.Draw = &DrawView{Commitment: d.Commitment}
		if d.Root != "" {
			v.Draw.Root, v.Draw.N = &d.Root, &d.N
		}
		if d.Seed != "" {
			v.Draw.Seed, v.Draw.Secret = &d.Seed, &d.Secret
		}
		if b := d.Beacon; b != nil {
			v.Draw.Beacon = &beaconView{Network: b.Network, Chain: b.Chain, Round: b.Round, At: response.Instant(b.At)}
			if b.Signature != "" {
				v.Draw.Beacon.Signature = &b.Signature
			}
		}
	}
	return v
}

// Room answers from this process's memory, with a document that all callers of a moment share. Only joins and stock in it are of
// a moment before.
func (h *Visitors) Room(ctx context.Context, in *RoomName) (*document.Output, error) {
	request.Of(ctx).Slot.Leave()
	d, err := h.document(ctx, in.Room)
	if err != nil {
		return nil, err
	}
	return d.JSON(), nil
}

// document returns a room as everybody may see it.
func (h *Visitors) document(ctx context.Context, name string) (*document.Document, error) {
	return h.documents.Get(ctx, name, func(ctx context.Context) (any, func() bool, error) {
		changed, err := h.Rooms.Changed(ctx, name) // before the room is read, so that no change is missed
		if err != nil {
			return nil, nil, err
		}
		s, err := h.Rooms.Room(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		return viewRoom(&s), func() bool {
			now, err := h.Rooms.Changed(ctx, name)
			return err == nil && now == changed
		}, nil
	})
}

func (h *Visitors) room(ctx context.Context, name string) (waitingroom.Status, error) {
	request.Of(ctx).Slot.Leave()
	return h.Rooms.Room(ctx, name)
}
