package serve

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/firewall"
)

// addBanScript makes a process run the program of `bans: {run: …}`.
func (p *Process) addBanScript(cfg *config.Config, r *Redis, store store.Store, rules func() *rules.Set) (prometheus.Collector, error) {
	w, err := firewall.NewWorker(firewall.WorkerOptions{
		Namespace: cfg.Namespace, Redis: r.Decisions.UniversalClient, Queue: r.Queue, Bans: bans.NewReader(store.Bans(), cfg.Namespace),
		Rules:   rules,
		Proxies: cfg.TrustedProxies, Logger: p.Log,
	})
	if err != nil {
		return nil, err
	}
	if p.Worker == nil {
		p.Worker = w
	} else {
		p.Worker = both{p.Worker, w}
	}
	return w, nil
}
