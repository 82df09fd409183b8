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
)

// Run sends the crowd, waits until its orders have settled, and judges. The report is there whenever the wave ran, also beside an
// error (the history file, or an internal API that would not list or verify); then what needs the missing part is not judged.
// When ctx ends there is no report.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	quiet := newTransport(8, 1)
	defer quiet.CloseIdleConnections()
	api := newInternal(o, quiet)
	sale, err := prepare(ctx, api, o)
	if err != nil {
		return nil, err
	}
	if len(o.Items) == 0 {
		for _, it := range sale.Items {
			o.Items = append(o.Items, it.Item)
		}
	}
	clicks := plan(o)
	head := Head{Prefix: newPrefix(), Sale: o.Sale, Seed: o.Seed, Planned: len(clicks), StartedAt: time.Now()}
	rec, err := newRecorder(head, o.HistoryFile)
	if err != nil {
		return nil, err
	}
	over, runErr := sendCrowd(ctx, o, head, rec, clicks)
	h, fileErr := rec.finish()
	if runErr != nil {
		return nil, runErr
	}
	evidence, err := collect(ctx, api, over.Add(o.DrainTimeout))
	if ctx.Err() != nil {
		return nil, fmt.Errorf("rehearse: %w", context.Cause(ctx))
	}
	evidence.sale.Fresh = sale.Fresh
	for i, it := range evidence.sale.Items {
		evidence.sale.Items[i].Quota = o.Quota
		if o.Quota == 0 {
			evidence.sale.Items[i].Quota = evidence.quotas[it.Item]
		}
	}
	return newReport(o, h, Judge(h, evidence.orders, evidence.verify, evidence.sale)), errors.Join(fileErr, err)
}

// prepare creates and opens the sale if that was asked for, and reads it.
func prepare(ctx context.Context, api *internal, o Options) (Sale, error) {
	var fresh bool
	if o.Stock > 0 {
		var err error
		if fresh, err = api.create(ctx, o); err != nil {
			return Sale{}, fmt.Errorf("creating the sale: %w", err)
		}
	}
	sale, err := api.read(ctx)
	switch {
	case err != nil:
		return Sale{}, fmt.Errorf("reading the sale: %w", err)
	case len(sale.Items) == 0:
		return Sale{}, fmt.Errorf("%w: sale %q has no items", ErrAPI, o.Sale)
	}
	for _, name := range o.Items {
		if !slices.ContainsFunc(sale.Items, func(it Item) bool { return it.Item == name }) {
			return Sale{}, fmt.Errorf("%w Items: %q is not in sale %q; want items of it", ErrOption, name, o.Sale)
		}
	}
	sale.Fresh = fresh
	if o.Stock == 0 {
		return sale, nil // a crowd may well come before the sale opens
	}
	for _, base := range o.PublicURLs {
		if err := awaitOpen(ctx, newInternal(Options{InternalURL: base, Sale: o.Sale, RequestTimeout: o.RequestTimeout}, api.rt)); err != nil {
			return Sale{}, fmt.Errorf("waiting for %s to open the sale: %w", base, err)
		}
	}
	return sale, nil
}

// awaitOpen waits until a process knows that the sale is open: it learns of it in its own time.
func awaitOpen(ctx context.Context, api *internal) error {
	for tries := 0; ; tries++ {
		sale, err := api.read(ctx)
		switch {
		case err == nil && sale.State == "open":
			return nil
		case tries == 100 && err != nil:
			return err
		case tries == 100:
			return fmt.Errorf("%w: the sale is %q", ErrAPI, sale.State)
		}
		if !pause(ctx, 50*time.Millisecond) {
			return fmt.Errorf("rehearse: %w", context.Cause(ctx))
		}
	}
}

// sendCrowd runs the wave, asks again for what stayed open, and follows every order; over is when the crowd had asked its last.
func sendCrowd(ctx context.Context, o Options, head Head, rec *recorder, clicks []click) (over time.Time, err error) {
	buying, looking := newTransport(o.Connections-o.Followers, len(o.PublicURLs)), newTransport(o.Followers, len(o.PublicURLs))
	defer buying.CloseIdleConnections()
	defer looking.CloseIdleConnections()
	c := &crowd{
		o: o, head: head, rec: rec, tally: &tally{}, start: head.StartedAt,
		slots: make(chan struct{}, o.Connections-o.Followers), known: map[string]struct{}{},
		follow: make(chan placed, len(clicks)), // one definite answer ends a click, so this is enough
	}
	c.apis, err = publics(o, buying)
	if err != nil {
		return over, err
	}
	watchers, err := publics(o, looking)
	if err != nil {
		return over, err
	}
	following, giveUp := context.WithCancel(ctx)
	defer giveUp()
	showing, stopShowing := context.WithCancel(ctx)
	var show, follow sync.WaitGroup
	show.Go(func() { c.report(showing, o.Progress, clicks) })
	follow.Go(func() {
		followAll(following, o.Followers, c.follow, func(ctx context.Context, p placed) { c.followOne(ctx, watchers, p) })
	})
	c.send(ctx, clicks)
	asking, enough := context.WithTimeout(ctx, o.DrainTimeout) // a server that is gone for good must not hold the verdict back
	defer enough()
	c.resolve(asking)
	over = time.Now()
	close(c.follow)
	drain := time.AfterFunc(o.DrainTimeout, giveUp)
	follow.Wait()
	drain.Stop()
	stopShowing()
	show.Wait()
	if ctx.Err() != nil {
		return over, fmt.Errorf("rehearse: %w", context.Cause(ctx))
	}
	return over, nil
}

func publics(o Options, rt http.RoundTripper) ([]*public, error) {
	var all []*public
	for _, base := range o.PublicURLs {
		p, err := newPublic(base, o.Sale, rt, o.RequestTimeout)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// evidence is what the server shows after the drain; orders and verify are nil when it would not.
type evidence struct {
	orders []Order
	verify *Verification
	sale   Sale
	quotas map[string]int // by item
}

// collect asks the server until everything has settled or the deadline has passed. Verify comes first: once its queues are empty, the
// list is complete.
func collect(ctx context.Context, api *internal, deadline time.Time) (e evidence, err error) {
	for {
		e.verify, err = api.verify(ctx)
		if err == nil && e.verify.settled() || time.Now().After(deadline) || !pause(ctx, 250*time.Millisecond) {
			break
		}
	}
	var listErr, saleErr, quotaErr error
	e.orders, listErr = api.orders(ctx)
	e.sale, saleErr = api.read(ctx)
	e.quotas, quotaErr = api.quotas(ctx, e.sale.Sale)
	if listErr == nil && saleErr != nil {
		e.orders = nil // without the sale nothing of the list can be judged
	}
	return e, errors.Join(err, listErr, saleErr, quotaErr)
}

// newPrefix sets this crowd's buyers apart from all others, also from those of an earlier run with the same seed.
func newPrefix() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return "crowd-" + hex.EncodeToString(b[:]) + "-"
}
