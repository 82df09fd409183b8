package firewall

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/internal/processgroup"
)

const (
	rulesEvery = time.Second // interval of checking the rules, which are in this process
	// settling is how long the processes of an installation may take to load a changed rules file. Until then an API without a configured
	// program makes no tasks.
	settling = 30 * time.Second
)

// Run works until ctx ends. It does nothing while the rules configure no program, or one that cannot be run.
func (w *Worker) Run(ctx context.Context) error {
	holding, stop := context.WithCancel(context.WithoutCancel(ctx)) // the last task needs its permit
	var held sync.WaitGroup
	defer held.Wait()
	defer stop()
	held.Go(func() { _ = w.alone.Run(holding) })
	if err := w.awaitScript(ctx); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.serve(ctx) })
	g.Go(func() error { return w.follow(ctx) })
	return g.Wait()
}

// awaitScript waits until a program is configured and can be run.
func (w *Worker) awaitScript(ctx context.Context) error {
	var warned *rules.Set
	return periodic.Until(ctx, rulesEvery, func() bool {
		rules := w.opts.Rules()
		script := scriptOf(rules)
		if len(script.Argv) == 0 {
			return false
		}
		err := runnable(script)
		if err != nil && warned != rules {
			warned = rules
			w.log.Warn("bans: the program of bans.run cannot be run; the firewall receives no bans until it can", "error", err)
		}
		return err == nil
	})
}

func runnable(script Script) error {
	if !processgroup.Supported {
		return errors.New("firewall: the program needs Unix, where it can be killed together with the processes that it starts")
	}
	_, err := exec.LookPath(script.Argv[0])
	return err
}

// A pass is the state of follow.
type pass struct {
	rules  *rules.Set // last rules seen
	argv   []string   // of the program that has received all bans
	cursor int64      // the program has received all changes up to this one
	due    time.Time  // when to pass on later changes; zero: never
}

// follow passes all bans in force to the program: at the start, since a firewall may have lost its state, and when the rules configure
// another one.
func (w *Worker) follow(ctx context.Context) error {
	var (
		p        pass
		reported string
	)
	return periodic.Until(ctx, rulesEvery, func() bool {
		err := w.step(ctx, &p)
		switch {
		case err == nil || ctx.Err() != nil:
			reported = ""
		case err.Error() != reported:
			reported = err.Error()
			w.log.Warn("bans: the firewall does not know all of them yet", "error", err)
		}
		return false
	})
}

// step is one iteration of follow. After an error the next one continues.
func (w *Worker) step(ctx context.Context, p *pass) error {
	rules := w.opts.Rules()
	script := scriptOf(rules)
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
		// Addresses newly allowed by the rules may be banned in the firewall.
		from := int64(0)
		if err := w.tell(ctx, &from, free, func(b *bans.Ban) bool { return inForce(b) && w.refusedNow(b, rules) }); err != nil {
			return err
		}
		p.rules = rules
	case !p.due.IsZero() && !time.Now().Before(p.due):
		if err := w.tell(ctx, &p.cursor, again, func(*bans.Ban) bool { return true }); err != nil {
			return err
		}
		p.due = time.Time{}
	}
	return nil
}

func inForce(b *bans.Ban) bool { return !b.Lifted() }

func (w *Worker) refusedNow(b *bans.Ban, rules *rules.Set) bool {
	p, ok := b.Prefix()
	return ok && never(p, rules, nil, w.opts.Proxies) != ""
}

// tell updates the firewall for all bans that changed after *since, one after the other, and advances *since. If the program fails for a
// ban, or the breaker holds it back, tell leaves it to a task.
func (w *Worker) tell(ctx context.Context, since *int64, how asking, which func(*bans.Ban) bool) error {
	for {
		bans, next, more, err := w.opts.Bans.Changed(ctx, *since)
		if err != nil {
			return fmt.Errorf("firewall: bans in force: %w", err)
		}
		for i := range bans {
			b := &bans[i]
			if _, ok := b.Prefix(); !ok || !which(b) {
				continue
			}
			err := w.turn(ctx, b.Target, how)
			var held *heldBack
			if errors.Is(err, errScript) || errors.As(err, &held) {
				w.log.Info("bans: could not send a change to the firewall; will retry", "error", err)
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
