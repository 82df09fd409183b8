package enforce

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/admission"
)

const (
	rulesEvery = time.Second // between two looks at the rules, which are in this process
	// settling is how long the processes of an installation may take to follow a rules file. An API that does not know yet that there is
	// a program makes no tasks.
	settling = 30 * time.Second
)

// Run works until ctx ends. It does nothing while the rules name no program, or one that cannot be run.
func (w *Worker) Run(ctx context.Context) error {
	defer w.alone.Close()
	if err := w.awaitScript(ctx); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.serve(ctx) })
	g.Go(func() error { return w.follow(ctx) })
	return g.Wait()
}

// awaitScript waits until there is a program that can be run.
func (w *Worker) awaitScript(ctx context.Context) error {
	var warned *admission.Rules
	return every(ctx, rulesEvery, func() bool {
		rules := w.opts.Rules()
		script := rules.BanScript()
		if len(script.Argv) == 0 {
			return false
		}
		err := runnable(script)
		if err != nil && warned != rules {
			warned = rules
			w.log.Warn("bans: the program of bans.run cannot be run, the firewall is not told until it can", "error", err)
		}
		return err == nil
	})
}

// every calls do until it returns true or ctx ends, whose error it then returns.
func every(ctx context.Context, d time.Duration, do func() bool) error {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for !do() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

func runnable(script admission.BanScript) error {
	_, err := exec.LookPath(script.Argv[0])
	return err
}

// A pass is what is to be told again.
type pass struct {
	rules  *admission.Rules // seen last
	argv   []string         // of the program that knows all
	cursor int64            // it knows all changes up to this one
	due    time.Time        // when it hears what has changed since; zero: never
}

// follow tells the program of all bans in force: at the start, since a firewall may have lost its memory, and when the rules name another one.
func (w *Worker) follow(ctx context.Context) error {
	var (
		p    pass
		said string
	)
	return every(ctx, rulesEvery, func() bool {
		err := w.step(ctx, &p)
		switch {
		case err == nil || ctx.Err() != nil:
			said = ""
		case err.Error() != said:
			said = err.Error()
			w.log.Warn("bans: the firewall does not know all of them yet", "error", err)
		}
		return false
	})
}

// step is one turn of follow. After an error the next one goes on.
func (w *Worker) step(ctx context.Context, p *pass) error {
	rules := w.opts.Rules()
	script := rules.BanScript()
	switch {
	case len(script.Argv) == 0:
		*p = pass{rules: rules}
	case !slices.Equal(script.Argv, p.argv):
		if p.rules != rules {
			p.rules, p.cursor = rules, 0
		}
		if err := runnable(script); err != nil {
			return err
		}
		if err := w.tell(ctx, &p.cursor, free, inForce); err != nil {
			return err
		}
		p.argv, p.due = script.Argv, time.Now().Add(w.settling)
	case p.rules != rules:
		// Who is on the list from now on was not before.
		from := int64(0)
		if err := w.tell(ctx, &from, free, func(b *admission.Ban) bool { return inForce(b) && w.refusedNow(b, rules) }); err != nil {
			return err
		}
		p.rules = rules
	case !p.due.IsZero() && !time.Now().Before(p.due):
		if err := w.tell(ctx, &p.cursor, again, func(*admission.Ban) bool { return true }); err != nil {
			return err
		}
		p.due = time.Time{}
	}
	return nil
}

func inForce(b *admission.Ban) bool { return !b.Lifted() }

func (w *Worker) refusedNow(b *admission.Ban, rules *admission.Rules) bool {
	p, ok := b.Prefix()
	return ok && never(p, rules, nil, w.opts.Proxies) != ""
}

// tell makes the firewall agree with what has changed since a change, one after the other, and moves that on. What the program fails
// at, or the breaker holds back, is left to a task.
func (w *Worker) tell(ctx context.Context, since *int64, how asking, which func(*admission.Ban) bool) error {
	for {
		bans, next, more, err := w.opts.Bans.Changed(ctx, *since)
		if err != nil {
			return fmt.Errorf("enforce: bans in force: %w", err)
		}
		for i := range bans {
			b := &bans[i]
			if _, ok := b.Prefix(); !ok || !which(b) {
				continue
			}
			err := w.turn(ctx, b.BanTarget, how)
			var held *heldBack
			if errors.Is(err, errScript) || errors.As(err, &held) {
				w.log.Info("bans: the firewall was not told, which is tried again", "error", err)
				id := fmt.Sprintf("%s:%s:again-%d", b.Kind, b.Value, b.Change)
				err = enqueue(ctx, w.client, w.opts.Namespace, id, payload{b.Kind, b.Value, true}, time.Until(b.Until))
			}
			if err != nil {
				return err
			}
		}
		if *since = next; !more {
			return nil
		}
	}
}
