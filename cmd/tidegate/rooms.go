package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/apiclient"
	"github.com/tidegate/tidegate/internal/drand"
	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/httpapi/rooms"
	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/waitingroom"
	"github.com/tidegate/tidegate/waitingroom/draw"
)

var (
	roomColumns  = []string{"room", "phase", "starts_at", "waiting", "served", "joined", "rate_per_min", "stock"}
	roomInDetail = []string{
		"room", "phase", "mode", "sale", "item", "gather_at", "starts_at", "waiting", "served", "joined", "stock", "capacity", "rate_per_min",
		"claim_ms", "pass_ms",
		"bound", "requires_user", "captcha", "lanes", "message", "draw",
	}
	placeColumns   = []string{"number", "user", "lane", "state", "position", "ahead", "quantity", "joined_at", "order_id", "reason"}
	stepsOfAUser   = []string{"number", "lane", "position", "quantity", "state", "at", "step", "by", "cause"}
	roomNames      = completion{fieldsOf("room", "v1", "rooms")}
	pathOfRoomVerb = func(verb string) func([]string) []string {
		return func(args []string) []string { return []string{"v1", "rooms", args[0], verb} }
	}
)

func roomsCommand(getenv func(string) string) *cobra.Command {
	var def roomDefinition
	only := url.Values{}
	verb := func(use, verb, short string, ask question, change roomChange) apiCall {
		return withReason(apiCall{
			use: use, short: short, method: http.MethodPost, columns: roomInDetail, complete: roomNames, ask: ask, path: pathOfRoomVerb(verb),
		}, change)
	}
	cmd := calls(
		getenv, "rooms", "List, define and operate waiting rooms, and verify draws",
		apiCall{use: "list", short: "List all waiting rooms", method: http.MethodGet, path: below("rooms"), list: true, columns: roomColumns},
		apiCall{ // the visitors' view of a room has fewer fields, so the room is picked from the list
			use: "show ROOM", short: "Show a waiting room", method: http.MethodGet, path: func([]string) []string { return []string{"v1", "rooms"} },
			list: true, pick: true, columns: roomInDetail, complete: roomNames,
		},
		apiCall{
			use: "put ROOM", short: "Create or change a waiting room; those who wait keep their order", method: http.MethodPut,
			long: "Create or change a waiting room. When a room is changed, settings without a flag are reset to their defaults. Sale and item " +
				"cannot be changed, mode and start only before the room has begun, and lanes only in their shares once people have joined.",
			example: "  tidegate rooms put shoes --sale summer --item shoe --mode draw \\\n" +
				"      --gather 2026-12-01T19:00:00Z --starts 2026-12-01T20:00:00Z --rate 600\n" +
				"  tidegate rooms put login --rate 1000 --capacity 5000\n" +
				"  tidegate rooms put shoes --sale summer --item shoe \\\n      --lane members=30:member --lane all=70",
			path: below("rooms"), columns: roomInDetail, complete: roomNames, flags: def.flags, body: def.body, ask: changingRoom,
		},
		verb("hold ROOM", "hold", "Hold a waiting room: no turn is given, and none lapses", nil, nil),
		verb("resume ROOM", "resume", "Continue a waiting room that is held", nil, nil),
		verb("advance ROOM TURNS", "advance", "Give turns besides the rate, within capacity and stock", nil,
			number("TURNS", func(n int, why rooms.ChangeReason) any { return rooms.RoomAdvance{By: n, ChangeReason: why} })),
		verb("rate ROOM PER_MINUTE", "rate", "Change how many turns are claimed in a minute; 0: not bounded", nil,
			number("PER_MINUTE", func(n int, why rooms.ChangeReason) any { return rooms.RoomRate{RatePerMin: n, ChangeReason: why} })),
		verb("message ROOM TEXT", "message", "Show a text to everybody in a waiting room; \"\" removes it", nil,
			func(args []string, why rooms.ChangeReason) (any, error) {
				return rooms.RoomMessage{Message: args[1], ChangeReason: why}, nil
			}),
		apiCall{
			use: "draw ROOM", short: "Show a waiting room after its draw, which happens by itself at the start", method: http.MethodPost,
			columns:  roomInDetail,
			complete: roomNames, path: pathOfRoomVerb("draw"),
		},
		beaconCommand(),
		verb("close ROOM", "close", "Close a waiting room permanently", func(_ context.Context, _ *internalAPI, args []string) (string, error) {
			return "Close " + args[0] + " permanently? Those who wait are turned away, and its item can be ordered without a turn.", nil
		}, nil),
		apiCall{
			use: "places ROOM", short: "List the places of a waiting room, by their numbers", method: http.MethodGet, list: true, many: true,
			complete: roomNames,
			path:     pathOfRoomVerb("places"), columns: placeColumns, query: func([]string) url.Values { return only },
			flags: func(cmd *cobra.Command) {
				cmd.Flags().Func("user", "only places of this user", func(user string) error {
					only.Set("user", user)
					return nil
				})
			},
		},
		apiCall{
			use: "explain ROOM USER", short: "Show each step of each place that a user has had", method: http.MethodGet, list: true,
			complete: roomNames,
			path:     pathOfRoomVerb("places"), columns: stepsOfAUser, split: "steps",
			query: func(args []string) url.Values { return url.Values{"user": {args[1]}} },
		},
		apiCall{
			use: "verify ROOM", short: "Verify the invariants of a waiting room", method: http.MethodGet, path: pathOfRoomVerb("verify"),
			show: showChecks, complete: roomNames,
		},
	)
	cmd.AddCommand(verifyDrawCommand())
	return cmd
}

// roomChange returns the body of a change of a room.
type roomChange func(args []string, why rooms.ChangeReason) (any, error)

// withReason returns a call that changes a room, with the flag for the reason. change may be nil: the body has a reason, or there is none.
func withReason(c apiCall, change roomChange) apiCall {
	var why rooms.ChangeReason
	flags := c.flags
	c.flags = func(cmd *cobra.Command) {
		if flags != nil {
			flags(cmd)
		}
		cmd.Flags().StringVar(&why.Reason, "reason", "", "reason, shown to operators only: in the audit log, and in the history of places")
	}
	c.body = func(_ context.Context, _ *internalAPI, args []string) (any, error) {
		switch {
		case change != nil:
			return change(args, why)
		case why.Reason != "":
			return why, nil
		}
		return nil, nil
	}
	return c
}

// number returns a change by the second argument, which must be a number.
func number(argument string, to func(n int, why rooms.ChangeReason) any) roomChange {
	return func(args []string, why rooms.ChangeReason) (any, error) {
		n, err := strconv.Atoi(args[1])
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%s must be a number, 0 or more, got %q", argument, args[1])
		}
		return to(n, why), nil
	}
}

// changingRoom asks for confirmation if the room already exists.
func changingRoom(ctx context.Context, api *internalAPI, args []string) (string, error) {
	switch _, err := api.send(ctx, http.MethodGet, nil, nil, "v1", "rooms", args[0]); {
	case err == nil:
		return "Room " + args[0] + " exists. Replace its settings, including those without a flag?", nil
	case !apiclient.HasStatus(err, http.StatusNotFound):
		return "", err
	}
	return "", nil
}

// A roomDefinition is the definition of a waiting room by flags.
type roomDefinition struct {
	sale, item, mode, bound, gather, starts string
	capacity, rate                          int
	claim, pass                             time.Duration
	anonymous, captcha                      bool
	beacon                                  string
	lanes                                   []string
	title, shop, logo, onward, signIn       string
}

func (d *roomDefinition) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&d.sale, "sale", "", "sale whose item needs a turn (default: the room stands alone)")
	f.StringVar(&d.item, "item", "", "item of the sale")
	f.StringVar(&d.mode, "mode", string(waitingroom.ModeFIFO), "fifo, or draw: the order of those who join before the start is drawn")
	f.StringVar(&d.gather, "gather", "", "time from which people may join, such as 2026-12-01T19:00:00Z (default: the start)")
	f.StringVar(&d.starts, "starts", "", "time from which turns are given, such as 2026-12-01T20:00:00Z (default: now)")
	f.IntVar(&d.capacity, "capacity", 0, "people admitted at a time; 0: not bounded")
	f.IntVar(&d.rate, "rate", 0, "turns claimed in a minute; 0: not bounded")
	f.DurationVar(&d.claim, "claim", waitingroom.DefaultClaimWindow, "time to claim a turn")
	f.DurationVar(&d.pass, "pass", waitingroom.DefaultPassLifetime, "time to order, or to use the pass")
	f.StringVar(&d.bound, "bound", string(waitingroom.BoundStrict), "strict: who claims in time gets a unit; expected: more turns than units")
	f.BoolVar(&d.anonymous, "anonymous", false, "accept visitors without a user")
	f.BoolVar(&d.captcha, "captcha", false, "joining needs a solved challenge")
	f.StringVar(&d.beacon, "beacon", "", "drand: the draw also depends on a public random value, which is unknown while the list can be "+
		"changed")
	f.StringArrayVar(&d.lanes, "lane", nil,
		"lane as NAME=SHARE, or NAME=SHARE:TIER for callers of one tier; once for each lane (default: no lanes)")
	f.StringVar(&d.title, "title", "", "title of the page (default: the item or the room)")
	f.StringVar(&d.shop, "shop", "", "name of the shop, on the page")
	f.StringVar(&d.logo, "logo", "", "URL of an image, on the page")
	f.StringVar(&d.onward, "continue", "", "URL where the page sends whoever is admitted (default: there is no page)")
	f.StringVar(&d.signIn, "sign-in", "", "URL where the page sends whoever has to sign in first")
	for name, words := range map[string][]string{
		"mode":   {string(waitingroom.ModeFIFO), string(waitingroom.ModeDraw)},
		"bound":  {string(waitingroom.BoundStrict), string(waitingroom.BoundExpected)},
		"beacon": {draw.Drand},
	} {
		// fails only for an unknown flag
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
}

func (d *roomDefinition) body(context.Context, *internalAPI, []string) (any, error) {
	starts := time.Now().UTC().Truncate(time.Second)
	var err error
	if d.starts != "" {
		if starts, err = time.Parse(time.RFC3339, d.starts); err != nil {
			return nil, fmt.Errorf("--starts must be a time such as 2026-12-01T20:00:00Z, got %q", d.starts)
		}
	}
	gather := starts
	if d.gather != "" {
		if gather, err = time.Parse(time.RFC3339, d.gather); err != nil {
			return nil, fmt.Errorf("--gather must be a time such as 2026-12-01T19:00:00Z, got %q", d.gather)
		}
	}
	if d.claim < time.Millisecond || d.pass < time.Millisecond {
		return nil, fmt.Errorf("--claim and --pass must be 1s or more, got %v and %v", d.claim, d.pass)
	}
	if (d.sale == "") != (d.item == "") {
		return nil, errors.New("--sale and --item are given together, or neither")
	}
	lanes := make([]rooms.LaneDefinition, len(d.lanes))
	for i, text := range d.lanes {
		if lanes[i], err = parseLane(text); err != nil {
			return nil, err
		}
	}
	return rooms.RoomDefinition{
		Sale: d.sale, Item: d.item, Mode: waitingroom.Mode(d.mode), GatherAt: &gather, StartsAt: starts, Capacity: d.capacity, RatePerMin: d.rate,
		ClaimMS: d.claim.Milliseconds(), PassMS: d.pass.Milliseconds(), Bound: waitingroom.Bound(d.bound), RequiresUser: new(!d.anonymous),
		Captcha: d.captcha,
		Beacon:  d.beacon, Lanes: lanes, PageView: rooms.PageView{
			Title: d.title, Shop: d.shop, LogoURL: d.logo, ContinueURL: d.onward,
			SignInURL: d.signIn,
		},
	}, nil
}

// beaconCommand is for servers that reach no relay of drand.
func beaconCommand() apiCall {
	var file string
	return withReason(apiCall{
		use: "beacon ROOM", short: "Give a waiting room the round of drand that its draw waits for", method: http.MethodPost,
		columns: roomInDetail, complete: roomNames,
		long: "Give a waiting room the round of drand that its draw waits for. Servers fetch it themselves; if they cannot reach a relay " +
			"(DRAND_URLS), fetch it elsewhere. The server verifies it. The room's draw names the round and chain that it needs: tidegate rooms " +
			"show ROOM.",
		example: "  curl -s https://api.drand.sh/CHAIN/public/ROUND > round.json &&\n      tidegate rooms beacon shoes --file round.json",
		path:    pathOfRoomVerb("beacon"),
		flags: func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&file, "file", "", "what a relay answered for the round, in JSON; - reads standard input")
			_ = cmd.MarkFlagRequired("file") // fails only for an unknown flag
		},
	}, func(_ []string, why rooms.ChangeReason) (any, error) {
		in := io.Reader(os.Stdin)
		if file != "-" {
			f, err := os.Open(file)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			in = f
		}
		var round drand.Round
		if err := json.NewDecoder(in).Decode(&round); err != nil || round.Round == 0 || round.Signature == "" {
			return nil, fmt.Errorf(`--file must contain a round of drand, such as {"round": 1000, "signature": "b446…"}: %w`,
				cmp.Or(err, errors.New("round or signature is missing")))
		}
		return rooms.RoomBeacon{Round: round.Round, Signature: round.Signature, ChangeReason: why}, nil
	})
}

// parseLane returns the lane of a flag. The server checks the name and the share.
func parseLane(text string) (rooms.LaneDefinition, error) {
	name, rest, _ := strings.Cut(text, "=")
	share, tier, _ := strings.Cut(rest, ":")
	n, err := strconv.Atoi(share)
	if err != nil {
		return rooms.LaneDefinition{}, fmt.Errorf("--lane must be such as all=70 or members=30:member, got %q", text)
	}
	return rooms.LaneDefinition{Lane: name, Share: n, Tier: tier}, nil
}

// verifyDrawCommand needs no server: anybody can verify a draw.
func verifyDrawCommand() *cobra.Command {
	var commitment, root string
	var round int64
	cmd := &cobra.Command{
		Use:   "verify-draw FILE",
		Short: "Verify a draw by its list; - reads standard input",
		Long: "Verify the list of a draw, which GET /v1/rooms/{room}/draw.csv of the public listener answers: the secret against the " +
			"commitment, all places against the root, the signature of the beacon, the seed, and every position. No server is asked. Compare " +
			"the commitment with the one that was published before the start, and root and round with those that the room showed before the " +
			"round was signed.",
		Example: "  curl -s https://shop.example/v1/rooms/shoes/draw.csv |\n      tidegate rooms verify-draw - --commitment 9f86d081…",
		Args:    named,
		RunE: func(cmd *cobra.Command, args []string) error {
			in := cmd.InOrStdin()
			if args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer file.Close()
				in = file
			}
			return verifyDraw(cmd.OutOrStdout(), in, commitment, root, round)
		},
	}
	cmd.Flags().StringVar(&commitment, "commitment", "", "commitment that was published before the start")
	cmd.Flags().StringVar(&root, "root", "", "root that was published")
	cmd.Flags().Int64Var(&round, "round", 0, "round of drand that was published with the root, in a room with a beacon")
	return cmd
}

func beaconOf(d draw.List) string {
	if d.Beacon.Round == 0 {
		return "none: whoever knew the secret could have added places until the order suited"
	}
	return fmt.Sprintf("round %d of drand's quicknet", d.Beacon.Round)
}

func verifyDraw(out io.Writer, list io.Reader, commitment, root string, round int64) error {
	d, err := draw.Verify(list)
	wrong, invalid := errors.AsType[*failure.Error](err)
	switch {
	case invalid:
		return finding{errors.New(input.Harmless(wrong.Text()))}
	case err != nil:
		return err
	}
	for _, published := range []struct{ flag, want, got string }{{"commitment", commitment, d.Commitment}, {"root", root, d.Root}} {
		if cmp.Or(published.want, published.got) != published.got {
			return finding{fmt.Errorf("the list has the %s %s, and --%s is %s: it is the list of another draw", published.flag,
				input.Harmless(published.got), published.flag, published.want)}
		}
	}
	if cmp.Or(round, d.Beacon.Round) != d.Beacon.Round {
		return finding{fmt.Errorf("the list has round %d, or 0 for none, and --round is %d: it is the list of another draw", d.Beacon.Round,
			round)}
	}
	verified := "secret, list, seed and all positions"
	if d.Beacon.Round > 0 {
		verified = "secret, signature of the beacon, list, seed and all positions"
	}
	return writeTable(out, [][]string{
		{"room", input.Harmless(d.Room)},
		{"places", strconv.FormatInt(d.N, 10)},
		{"commitment", d.Commitment},
		{"root", d.Root},
		{"seed", d.Seed},
		{"beacon", beaconOf(d)},
		{"verified", verified},
	})
}
