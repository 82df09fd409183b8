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
	"time"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/rehearse"
)

var errBroken = errors.New("the rehearsal did not pass: see the lines above that say BREACH or that were not judged")

func rehearseCommand(getenv func(string) string) *cobra.Command {
	var (
		o        rehearse.Options
		api      = internalAPI{getenv: getenv}
		embedded bool
		asJSON   bool
	)
	cmd := &cobra.Command{
		Use:   "rehearse",
		Short: "Send a crowd at a sale and judge what came of it",
		Long: `Send an open-loop crowd at a sale: when each buyer clicks is fixed before the first click, so a slow server gets no relief.
Then compare what the crowd saw with what the server lists, and judge the invariants of the sale.

With --stock the run creates the sale and opens it; otherwise the sale is there already.
At a sale that it creates, unless a flag of these says otherwise, the crowd lives whole lives: there are 3 seconds to pay, half of the
orders are paid, some late, twice, or while they are cancelled, a tenth is cancelled, and the rest expires and is sold again.
The exit status is 0 only if every judged invariant held.`,
		Example: `  tidegate rehearse --embedded --sale try --stock 300 --buyers 2000 --rate 400
  tidegate rehearse --target http://shop:8080 --internal http://shop:8081 --sale summer --buyers 50000 --duration 30s`,
		Args: named,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Progress = cmd.ErrOrStderr()
			if o.Stock > 0 && !lives(cmd) {
				o.Hold, o.Fates = 3*time.Second, rehearse.WholeLife()
			}
			show := table
			if asJSON {
				show = indented
			}
			if embedded {
				return rehearseEmbedded(cmd.Context(), o, show, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return rehearseAt(cmd.Context(), &api, o, show, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.PublicURLs, "target", []string{cmp.Or(getenv("TIDEGATE_URL"), "http://127.0.0.1:8080")},
		"URLs of public listeners; buyers spread over them [TIDEGATE_URL]")
	f.BoolVar(&embedded, "embedded", false, "rehearse against an embedded server of its own, in a temporary folder")
	f.BoolVar(&asJSON, "json", false, "print the report as JSON")
	f.StringVar(&o.Sale, "sale", "", "the sale")
	f.StringSliceVar(&o.Items, "item", nil, "what buyers ask for, evenly (default: every item of the sale)")
	f.IntVar(&o.Stock, "stock", 0, "create the sale with so many units of each item; 0: it is there already")
	f.IntVar(&o.Quota, "quota", 0, "units per buyer and item; 0: 1 for a created sale, else the sale's own")
	f.IntVar(&o.Buyers, "buyers", 0, "how many come; give two of --buyers, --rate and --duration")
	f.Float64Var(&o.Rate, "rate", 0, "new buyers per second")
	f.DurationVar(&o.Duration, "duration", 0, "from the first new buyer to the last")
	f.DurationVar(&o.Ramp, "ramp", 0, "how long the rate climbs")
	f.IntVar(&o.OrdersPerBuyer, "orders-per-buyer", 1, "orders of each buyer")
	f.IntVar(&o.QuantityMax, "quantity-max", 1, "units of an order, evenly from 1")
	f.Float64Var(&o.DuplicateClicks, "duplicate-clicks", 0, "share of orders clicked twice, 0 to 1")
	f.Float64Var(&o.HangUps, "hang-ups", 0, "share of orders whose first click is cut off after sending, 0 to 1")
	f.Uint64Var(&o.Seed, "seed", 1, "of the plan: the same seed and flags give the same crowd")
	f.Float64Var(&o.Keyless, "keyless", 0, "share of buyers who send no Idempotency-Key, 0 to 1; the quota must be 1")
	f.DurationVar(&o.Hold, "hold", 0, "time to pay, of a sale that the run creates; 0: confirmed orders are final")
	f.Float64Var(&o.Fates.Paid, "paid", 0, "share of orders that are paid")
	f.Float64Var(&o.Fates.Cancelled, "cancelled", 0, "share of orders that are cancelled")
	f.Float64Var(&o.Fates.Races, "races", 0, "share of orders that are paid and cancelled at the same instant")
	f.Float64Var(&o.Fates.Reorders, "reorders", 0, "share of those who cancelled that order again")
	f.Float64Var(&o.Fates.Early, "early", 0, "share of payments that come before the commit")
	f.Float64Var(&o.Fates.Late, "late", 0, "share of payments that come when the order expires, or after")
	f.Float64Var(&o.Fates.Repeated, "repeated", 0, "share of payments that come twice")
	f.Float64Var(&o.Fates.Doubled, "doubled", 0, "share of payments followed by another one for the same order")
	f.IntVar(&o.Limit, "limit", 0, "orders of a user that the rules admit within --window, to be judged; 0: not judged, except with --embedded")
	f.DurationVar(&o.Window, "window", 0, "of --limit (default 1m)")
	f.IntVar(&o.Connections, "connections", 0, "sockets at most (default 2000)")
	f.IntVar(&o.Followers, "followers", 0, "orders followed at once (default 256)")
	f.DurationVar(&o.RequestTimeout, "request-timeout", 0, "after which an answer is lost (default 10s)")
	f.IntVar(&o.Attempts, "attempts", 0, "maximum tries per order after lost responses (default 5)")
	f.DurationVar(&o.RetryWait, "retry-wait", 0, "before the first repeat (default 100ms)")
	f.BoolVar(&o.Impatient, "impatient", false, "buyers repeat after --retry-wait, whatever Retry-After says")
	f.DurationVar(&o.DrainTimeout, "drain-timeout", 0, "how long orders may take to settle after the wave (default 3m)")
	f.StringVar(&o.HistoryFile, "history", "", "file for everything seen, as JSON lines")
	_ = cmd.MarkFlagRequired("sale") // fails only for an unknown flag
	api.addFlags(cmd)
	cmd.MarkFlagsMutuallyExclusive("embedded", "target")
	cmd.MarkFlagsMutuallyExclusive("embedded", "internal")
	return cmd
}

// rehearseAt runs a rehearsal. It reports errors as the other commands do, and warns about a sale left open if no report follows.
func rehearseAt(ctx context.Context, api *internalAPI, o rehearse.Options, show func(*rehearse.Report, io.Writer) error, stdout io.Writer) error {
	opened := false
	o.InternalURL, o.Token = api.base, api.token()
	o.Refused, o.Opening = api.refused, func() { opened = true }
	_, err := api.send(ctx, http.MethodGet, nil, nil, "v1", "sales", o.Sale)
	if err != nil && !hasStatus(err, http.StatusNotFound) && !hasStatus(err, http.StatusServiceUnavailable) { // Run handles these statuses
		return err
	}
	report, err := rehearse.Run(ctx, o)
	if report == nil && opened {
		err = errors.Join(err, fmt.Errorf("sale %s is still open; to close it: tidegate sales close %s", o.Sale, o.Sale))
	}
	return errors.Join(err, verdict(report, show, stdout))
}

// lives reports whether a flag that controls the life of orders is set.
func lives(cmd *cobra.Command) bool {
	return slices.ContainsFunc([]string{"hold", "paid", "cancelled", "races", "reorders", "early", "late", "repeated", "doubled"}, cmd.Flags().Changed)
}

// verdict prints the report and returns whether the rehearsal passed.
func verdict(r *rehearse.Report, show func(*rehearse.Report, io.Writer) error, w io.Writer) error {
	if r == nil {
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

func table(r *rehearse.Report, w io.Writer) error { return r.WriteTable(w) }

func indented(r *rehearse.Report, w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(r)
}
