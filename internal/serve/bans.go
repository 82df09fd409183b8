package serve

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/enforce"
)

// addBanScript lets a process run the program of `bans: {run: …}`.
func (p *Process) addBanScript(cfg *config.Config, r *Redis, store admission.Store, rules func() *admission.Rules) (prometheus.Collector, error) {
	w, err := enforce.NewWorker(enforce.WorkerOptions{
		Namespace: cfg.Namespace, Redis: r.Decisions, Queue: r.Queue, Bans: admission.NewBanReader(store, cfg.Namespace), Rules: rules,
		Proxies: cfg.TrustedProxies, Logger: p.Log,
	})
	if err != nil {
		return nil, err
	}
	p.Worker = both{p.Worker, w}
	return w, nil
}

// rulesAgain is how long to wait where nothing can be watched.
const rulesAgain = time.Minute

// A rulesFile is the rules of a process that has no gate. It follows the file as a gate does.
type rulesFile struct {
	path  string
	log   *slog.Logger
	rules atomic.Pointer[admission.Rules]
	wrong string // of the last try; used by Run only
}

func openRules(path string, log *slog.Logger) (*rulesFile, error) {
	rules, err := admission.LoadRules(path)
	if err != nil {
		return nil, wrap("RULES_FILE", err)
	}
	f := &rulesFile{path: path, log: log}
	f.rules.Store(rules)
	return f, nil
}

// Run loads the rules again whenever their files change, until ctx ends.
func (f *rulesFile) Run(ctx context.Context) error {
	for {
		err := admission.WatchFiles(ctx, f.files, f.load)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		f.log.WarnContext(ctx, "rules are not followed", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(rulesAgain):
		}
	}
}

// files are those to be watched. Wrong rules are tried again with each look: what they lack may have come to where nobody watches.
func (f *rulesFile) files() []string {
	if f.wrong != "" {
		f.load()
	}
	return f.rules.Load().Files()
}

func (f *rulesFile) load() {
	rules, err := admission.LoadRules(f.path)
	if err != nil {
		if f.wrong != err.Error() {
			f.log.Warn("rules not loaded, the last good ones stay in force", "error", err)
		}
		f.wrong = err.Error()
		return
	}
	f.wrong = ""
	if rules.Version() != f.rules.Load().Version() {
		f.rules.Store(rules)
		f.log.Info("rules loaded", "version", rules.Version())
	}
}
