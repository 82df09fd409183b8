package rehearse

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/apiclient"
	"github.com/tidegate/tidegate/internal/judge"
)

// Run sends the crowd, waits until its orders have settled, and judges. It returns a report whenever the wave ran, even
// together with an error (of the history file, or of an internal API that did not list or verify); invariants that need the
// missing part are then not judged. When ctx ends there is no report.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	rec, err := newRecorder(o.HistoryFile)
	if err != nil {
		return nil, err
	}
	quiet := newTransport(8, 1)
	defer quiet.CloseIdleConnections()
	api := newInternal(o, quiet)
	sale, err := prepare(ctx, api, o)
	if err != nil {
		_, _ = rec.finish() // nothing is in it
		return nil, err
	}
	if len(o.Items) == 0 {
		for _, it := range sale.Items {
			o.Items = append(o.Items, it.Item)
		}
	}
	clicks := plan(o)
	head := judge.Head{Prefix: newPrefix(), Sale: o.Sale, Seed: o.Seed, Planned: len(clicks), StartedAt: time.Now()}
	rec.begin(head)
	over, runErr := sendCrowd(ctx, o, head, rec, clicks)
	var found judge.Evidence
	if runErr == nil {
		found, err = collect(ctx, api, o, &rec.h, sale.Fresh, over.Add(o.DrainTimeout))
		if o.Stopped != nil {
			for _, s := range o.Stopped() {
				rec.record(line{Stop: &s})
			}
		}
	}
	h, fileErr := rec.finish()
	if runErr != nil {
		return nil, runErr
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("rehearse: %w", context.Cause(ctx))
	}
	for i, now := range found.Sale.Items {
		for _, before := range sale.Items {
			if before.Item == now.Item {
				found.Sale.Items[i].Grown = now.Stock - before.Stock
			}
		}
	}
	return newReport(o, h, found, judge.Findings(h, found)), errors.Join(fileErr, err)
}

// startTimeout is how long requests are retried while the servers are still starting.
const startTimeout = 30 * time.Second

// prepare creates and opens the sale if requested, and reads it.
func prepare(ctx context.Context, api *internal, o Options) (judge.Sale, error) {
	var targets []*internal
	if o.Stock > 0 { // otherwise the sale is used as it is: not open yet, or with a process that is down
		for _, base := range o.PublicURLs {
			targets = append(targets, newInternal(Options{InternalURL: base, Sale: o.Sale, RequestTimeout: o.RequestTimeout}, api.client.Transport))
		}
	}
	for i, target := range targets { // before a sale is created that would be left behind
		if _, err := askRetrying[judge.Sale](ctx, target, http.MethodGet, target.sale, nil); err != nil &&
			!apiclient.HasStatus(err, http.StatusNotFound) {
			return judge.Sale{}, fmt.Errorf("asking --target %s: %w", o.PublicURLs[i], err)
		}
	}
	var fresh bool
	if o.Stock > 0 {
		var err error
		if fresh, err = api.create(ctx, o); err != nil {
			return judge.Sale{}, fmt.Errorf("creating the sale: %w", err)
		}
	}
	sale, err := askRetrying[judge.Sale](ctx, api, http.MethodGet, api.sale, nil)
	switch {
	case err != nil:
		return judge.Sale{}, fmt.Errorf("reading the sale: %w", err)
	case len(sale.Items) == 0:
		return judge.Sale{}, fmt.Errorf("%w: sale %q has no items", errAPI, o.Sale)
	}
	for _, name := range o.Items {
		if !slices.ContainsFunc(sale.Items, func(it judge.Item) bool { return it.Item == name }) {
			return judge.Sale{}, fmt.Errorf("%w --item must be items of sale %q, got %q", ErrOption, o.Sale, name)
		}
	}
	sale.Fresh = fresh && !o.Shared
	for i, target := range targets {
		if err := awaitOpen(ctx, target); err != nil {
			return judge.Sale{}, fmt.Errorf("waiting for --target %s to open the sale: %w", o.PublicURLs[i], err)
		}
	}
	return sale, nil
}

// awaitOpen waits until a process reports the sale as open: each process learns of it with a delay.
func awaitOpen(ctx context.Context, api *internal) (err error) {
	var sale judge.Sale
	if !retry(ctx, time.Now(), startTimeout, func() (done bool, pause time.Duration) {
		sale, err = api.read(ctx)
		return err == nil && sale.State == "open", 50 * time.Millisecond
	}) {
		return fmt.Errorf("rehearse: %w", context.Cause(ctx))
	}
	if err == nil && sale.State != "open" {
		err = fmt.Errorf("%w: the sale is %q", errAPI, sale.State)
	}
	return err
}

// sendCrowd runs the wave, retries calls whose outcome is open, and follows every order; over is when the last call ended.
func sendCrowd(ctx context.Context, o Options, head judge.Head, rec *recorder, clicks []click) (over time.Time, err error) {
	buying, looking := newTransport(o.Connections-o.Followers, len(o.PublicURLs)), newTransport(o.Followers, len(o.PublicURLs))
	paying := newTransport(payers, 1)
	defer buying.CloseIdleConnections()
	defer looking.CloseIdleConnections()
	defer paying.CloseIdleConnections()
	c := &crowd{
		o: o, head: head, apis: publics(o, buying), rec: rec, tally: &tally{}, start: head.StartedAt,
		slots: make(chan struct{}, o.Connections-o.Followers), known: map[string]struct{}{},
		paymentAPI: newInternal(o, paying), paymentSlots: make(chan struct{}, payers),
		follow: make(chan *placed, 4*len(clicks)), // a click is answered once, and ordered again at most once; an order is followed at most twice
	}
	watchers := publics(o, looking)
	following, giveUp := context.WithCancel(ctx)
	defer giveUp()
	showing, stopShowing := context.WithCancel(ctx)
	var show, follow sync.WaitGroup
	show.Go(func() { c.report(showing, o.Progress, clicks) })
	follow.Go(func() {
		followAll(o.Followers, c.follow, func(p *placed) { c.followOne(following, watchers, p) })
	})
	c.send(following, clicks)
	asking, enough := context.WithTimeout(following, o.DrainTimeout) // a server that is gone for good must not delay the verdict
	defer enough()
	c.resolve(asking)
	over = time.Now()
	drain := time.AfterFunc(o.DrainTimeout, giveUp)
	c.live.Wait()
	close(c.follow)
	follow.Wait()
	drain.Stop()
	stopShowing()
	show.Wait()
	if ctx.Err() != nil {
		return over, fmt.Errorf("rehearse: %w", context.Cause(ctx))
	}
	return over, nil
}

func publics(o Options, rt http.RoundTripper) (all []*public) {
	for _, base := range o.PublicURLs {
		all = append(all, newPublic(base, o.Sale, rt, o.RequestTimeout, o.ClockSkew))
	}
	return all
}

// newPrefix returns a prefix that distinguishes this crowd's buyers from all others, including those of an earlier run with the
// same seed.
func newPrefix() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return "crowd-" + hex.EncodeToString(b[:]) + "-"
}
