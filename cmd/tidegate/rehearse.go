package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidegate/tidegate/internal/apiclient"
	"github.com/tidegate/tidegate/internal/embedded"
	"github.com/tidegate/tidegate/internal/rehearse"
	"github.com/tidegate/tidegate/internal/rehearseroom"
)

var errBroken = finding{errors.New("the rehearsal failed: see the invariants above marked BREACH, or – for not judged")}

// rehearsal is the flags of the command rehearse.
type rehearsal struct {
	api      internalAPI
	sale     rehearse.Options
	room     rehearseroom.Options
	embedded bool
	asJSON   bool
}

func rehearseCommand(getenv func(string) string) *cobra.Command {
	r := &rehearsal{api: internalAPI{getenv: getenv}, room: rehearseroom.Options{HangUps: 0.1}}
	cmd := &cobra.Command{
		Use:   "rehearse",
		Short: "Send a simulated crowd to a sale and verify the result",
		Long: `Send an open-loop crowd to a sale: the time of each click is fixed in advance, so a slow server does not reduce the load. ` +
			`Then compare the responses with the orders that the server lists, and verify the sale's invariants.

With --stock the run creates and opens the sale; otherwise the sale must exist. By default, orders of a created sale must be paid within 3 seconds: ` +
			`half are paid, some of them late, twice or while they are cancelled, a tenth are cancelled, and the rest expire and are sold again. ` +
			`The flags --hold, --paid, --cancelled, --races, --reorders, --early, --late, --repeated and --doubled replace these defaults.

With --room the crowd goes through a waiting room, which the run creates with the sale: it takes --sale, --stock, --buyers and --seed, and the flags ` +
			`that only make sense with a room, such as --claim, --silent and --snipers.

The exit status is 0 if every judged invariant holds, 1 if not, and 2 if the rehearsal could not be run.`,
		Example: `  tidegate rehearse --embedded --sale try --stock 300 --buyers 2000 --rate 400
  tidegate rehearse --target http://shop:8080 --internal http://shop:8081 \
      --sale summer --buyers 50000 --duration 30s`,
		Args: named,
		RunE: r.run,
	}
	f := cmd.Flags()
	f.StringSliceVar(&r.sale.PublicURLs, "target", []string{cmp.Or(getenv("TIDEGATE_URL"), "http://127.0.0.1:8080")},
		"URLs of public listeners, between which buyers are distributed [TIDEGATE_URL]")
	f.BoolVar(&r.embedded, "embedded", false, "start an embedded server for the run, in a temporary folder")
	f.BoolVar(&r.asJSON, "json", false, "print the report as JSON")
	saleFlags(f, &r.sale)
	shareFlags(f, &r.sale.Shares)
	roomFlags(f, &r.room)
	_ = cmd.MarkFlagRequired("sale") // fails only for an unknown flag
	r.api.addFlags(cmd)
	cmd.MarkFlagsMutuallyExclusive("embedded", "target")
	cmd.MarkFlagsMutuallyExclusive("embedded", "internal")
	return cmd
}

func saleFlags(f *pflag.FlagSet, o *rehearse.Options) {
	f.StringVar(&o.Sale, "sale", "", "name of the sale")
	f.StringSliceVar(&o.Items, "item", nil, "items to order, chosen evenly (default: every item of the sale)")
	f.IntVar(&o.Stock, "stock", 0, "create the sale with this many units of each item; 0: use an existing sale")
	f.IntVar(&o.Quota, "quota", 0, "maximum units per buyer and item; 0: 1 for a created sale, else the sale's quota")
	f.IntVar(&o.Buyers, "buyers", 0, "number of buyers; set two of --buyers, --rate and --duration")
	f.Float64Var(&o.Rate, "rate", 0, "new buyers per second")
	f.DurationVar(&o.Duration, "duration", 0, "time from the first to the last new buyer")
	f.DurationVar(&o.Ramp, "ramp", 0, "time in which the rate increases linearly from 0")
	f.IntVar(&o.OrdersPerBuyer, "orders-per-buyer", 1, "number of orders per buyer")
	f.IntVar(&o.QuantityMax, "quantity-max", 1, "maximum units per order, chosen evenly from 1")
	f.Float64Var(&o.DuplicateClicks, "duplicate-clicks", 0, "share of orders clicked twice, 0 to 1")
	f.Float64Var(&o.HangUps, "hang-ups", 0,
		"share of orders whose first click disconnects after sending, 0 to 1; with --room of visitors who do so at each step (default 0.1)")
	f.Uint64Var(&o.Seed, "seed", 1, "random seed; the same seed and flags give the same crowd")
	f.Float64Var(&o.Keyless, "keyless", 0, "share of buyers who send no Idempotency-Key, 0 to 1; requires a quota of 1")
	f.DurationVar(&o.Hold, "hold", 0, "time to pay in a created sale; 0: confirmed orders are final")
	f.IntVar(&o.Limit, "limit", 0, "orders per user and --window that the rules admit, to verify; 0: not verified, except with --embedded")
	f.DurationVar(&o.Window, "window", 0, "window of --limit (default 1m)")
	f.IntVar(&o.Connections, "connections", 0, "maximum connections (default 2000)")
	f.IntVar(&o.Followers, "followers", 0, "orders followed at the same time (default 256)")
	f.DurationVar(&o.RequestTimeout, "request-timeout", 0, "timeout of a request (default 10s)")
	f.IntVar(&o.Attempts, "attempts", 0, "maximum tries per order after lost responses (default 5)")
	f.DurationVar(&o.RetryWait, "retry-wait", 0, "wait before the first retry (default 100ms)")
	f.BoolVar(&o.Impatient, "impatient", false, "buyers retry after --retry-wait and ignore Retry-After")
	f.DurationVar(&o.DrainTimeout, "drain-timeout", 0, "maximum time for orders to settle after the last click (default 3m)")
	f.StringVar(&o.HistoryFile, "history", "", "output file for all requests and responses, as JSON lines")
}

func shareFlags(f *pflag.FlagSet, shares *rehearse.Shares) {
	f.Float64Var(&shares.Paid, "paid", 0, "share of orders that are paid, 0 to 1")
	f.Float64Var(&shares.Cancelled, "cancelled", 0, "share of orders that are cancelled, 0 to 1")
	f.Float64Var(&shares.Races, "races", 0, "share of orders that are paid and cancelled at the same time, 0 to 1")
	f.Float64Var(&shares.Reorders, "reorders", 0, "share of cancelling buyers who order again, 0 to 1")
	f.Float64Var(&shares.Early, "early", 0, "share of payments before the commit, 0 to 1")
	f.Float64Var(&shares.Late, "late", 0, "share of payments at or after the expiry of the order, 0 to 1")
	f.Float64Var(&shares.Repeated, "repeated", 0, "share of payments that are sent twice, 0 to 1")
	f.Float64Var(&shares.Doubled, "doubled", 0, "share of payments followed by a second payment for the same order, 0 to 1")
}

func roomFlags(f *pflag.FlagSet, o *rehearseroom.Options) {
	f.StringVar(&o.Room, "room", "", "create a waiting room of this name, and send the crowd through it")
	f.DurationVar(&o.Gather, "gather", 0, "time from the first visitor to the start of the room, which waits for those who are to come "+
		"before it (default 2s)")
	f.DurationVar(&o.Claim, "claim", 0, "time to take a turn (default 2s)")
	f.Float64Var(&o.Late, "late-visitors", 0.1, "share of visitors who join after the start, 0 to 1")
	f.Float64Var(&o.Silent, "silent", 0.5, "share of visitors who never take their turn, 0 to 1")
	f.Float64Var(&o.Devices, "second-devices", 0.2, "share of visitors who join from two devices at once, 0 to 1")
	f.Float64Var(&o.Snipers, "snipers", 0.1, "share of visitors who order without a turn, 0 to 1")
	f.Float64Var(&o.Reloads, "reloads", 0.1, "share of visitors whose browser forgets its place after each answer, 0 to 1")
	f.Float64Var(&o.Bots, "bots", 0.1, "share of visitors who are one bot, and join at once as early as they can, 0 to 1")
}

func (r *rehearsal) run(cmd *cobra.Command, _ []string) error {
	ctx, stdout, stderr := cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	r.sale.Progress = stderr
	if r.sale.Stock > 0 && !lives(cmd) {
		r.sale.Hold, r.sale.Shares = 3*time.Second, rehearse.WholeLife()
	}
	if err := fits(cmd); err != nil {
		return err
	}
	show := table
	if r.asJSON {
		show = indented
	}
	if r.room.Room != "" {
		r.room.Sale, r.room.Stock, r.room.Visitors, r.room.Seed = r.sale.Sale, r.sale.Stock, r.sale.Buyers, r.sale.Seed
		if cmd.Flags().Changed("hang-ups") {
			r.room.HangUps = r.sale.HangUps
		}
		return rehearseRoom(ctx, &r.api, r.room, r.sale.PublicURLs, r.embedded, show, stdout, stderr)
	}
	if r.embedded {
		return rehearseEmbedded(ctx, r.sale, show, stdout, stderr)
	}
	return rehearseAt(ctx, &r.api, r.sale, show, stdout)
}

// rehearseAt runs a rehearsal. It reports errors as the other commands do, and warns about a sale left open if no report follows.
func rehearseAt(ctx context.Context, api *internalAPI, o rehearse.Options, show show, stdout io.Writer) error {
	opened := false
	o.InternalURL = api.base
	o.Token, _ = api.token()
	o.Opening = func() { opened = true }
	_, err := api.send(ctx, http.MethodGet, nil, nil, "v1", "sales", o.Sale)
	if err != nil && !apiclient.HasStatus(err, http.StatusNotFound) && !apiclient.HasStatus(err, http.StatusServiceUnavailable) {
		// Run handles these statuses
		return err
	}
	report, err := rehearse.Run(ctx, o)
	err = api.refused(err)
	if report == nil && opened {
		err = errors.Join(err, fmt.Errorf("sale %s is still open; close it with: tidegate sales close %s", o.Sale, o.Sale))
	}
	return errors.Join(err, verdict(report, show, stdout))
}

// rehearseRoom runs a rehearsal of a waiting room, on an embedded server or on the programs of the flags.
func rehearseRoom(
	ctx context.Context, api *internalAPI, o rehearseroom.Options, targets []string, own bool, show show, stdout, stderr io.Writer,
) error {
	run := func(ctx context.Context) error {
		report, err := rehearseroom.Run(ctx, o)
		return errors.Join(err, verdict(report, show, stdout))
	}
	if !own {
		if _, err := api.send(ctx, http.MethodGet, nil, nil, "v1", "rooms"); err != nil { // the crowd would ask again and again
			return err
		}
		o.PublicURLs, o.InternalURL = targets, api.base
		o.Token, _ = api.token()
		return run(ctx)
	}
	return withEmbedded(ctx, "", nil, stderr, func(ctx context.Context, at embedded.Place) error {
		o.PublicURLs, o.InternalURL = []string{at.Public}, at.Internal
		return run(ctx)
	})
}

// ofRoom are the flags that only a rehearsal with --room has, and common those that both have.
var (
	ofRoom = []string{"gather", "claim", "late-visitors", "silent", "second-devices", "snipers", "reloads", "bots"}
	common = []string{"room", "sale", "stock", "buyers", "seed", "hang-ups", "target", "internal", "token", "embedded", "json"}
)

// fits returns an error for flags that the kind of rehearsal ignores.
func fits(cmd *cobra.Command) (err error) {
	withRoom := cmd.Flags().Changed("room")
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch {
		case slices.Contains(common, f.Name) || slices.Contains(ofRoom, f.Name) == withRoom:
		case withRoom:
			err = errors.Join(err, fmt.Errorf("--%s must be left out with --room, which takes --%s and --%s", f.Name,
				strings.Join(common[1:], ", --"), strings.Join(ofRoom, ", --")))
		default:
			err = errors.Join(err, fmt.Errorf("--%s must be given with --room NAME, or left out: it is for the visitors of a waiting room", f.Name))
		}
	})
	return err
}

// lives reports whether a flag that controls the life of orders is set.
func lives(cmd *cobra.Command) bool {
	return slices.ContainsFunc([]string{"hold", "paid", "cancelled", "races", "reorders", "early", "late", "repeated", "doubled"},
		cmd.Flags().Changed)
}

// report is the result of a rehearsal.
type report interface {
	OK() bool
	WriteTable(w io.Writer) error
}

// show writes a report.
type show func(report, io.Writer) error

func table(r report, w io.Writer) error { return r.WriteTable(w) }

func indented(r report, w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(r)
}

// verdict shows the report, if there is one, and returns whether the rehearsal passed.
func verdict[R interface {
	comparable
	report
}](r R, show show, w io.Writer) error {
	var none R
	if r == none {
		return nil // the error of Run gives the reason
	}
	if err := show(r, w); err != nil {
		return err
	}
	if !r.OK() {
		return errBroken
	}
	return nil
}
