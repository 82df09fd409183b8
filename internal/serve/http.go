package serve

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/banlog"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/httpapi"
	"github.com/tidegate/tidegate/internal/metrics"
	"github.com/tidegate/tidegate/orders"
)

// AddHTTP gives a process the public and the internal listener. within bounds the decision on an order; 0 is the default.
func (p *Process) AddHTTP(cfg *config.Config, svc *orders.Service, counts admission.Store, history *banlog.Log, within time.Duration) error {
	rules, err := rulesOf(cfg)
	if err != nil {
		return err
	}
	gate, err := admission.New(counts, rules, admission.Options{
		Secret: []byte(cfg.Secret), Namespace: cfg.Namespace, History: history, Logger: p.Log,
	})
	if err != nil {
		return err
	}
	p.Background = append(p.Background, gate.Run)
	var tokens *httpapi.Tokens
	switch {
	case cfg.TokensFile != "":
		tokens, err = httpapi.LoadTokens(cfg.TokensFile, p.Log)
		err = wrap("TOKENS_FILE", err)
	case cfg.InternalToken != "":
		tokens, err = httpapi.OneToken(string(cfg.InternalToken))
		err = wrap("INTERNAL_TOKEN", err)
	}
	if err != nil {
		return err
	}
	if tokens != nil {
		p.Background = append(p.Background, tokens.Run)
	}
	var identity httpapi.Identity = httpapi.HeaderIdentity{}
	if cfg.Identity == config.IdentityJWT {
		jwt, err := httpapi.NewJWT(httpapi.JWTOptions{
			Secret: []byte(cfg.JWTSecret), JWKSFile: cfg.JWKSFile, Issuer: cfg.JWTIssuer, Audience: cfg.JWTAudience, Logger: p.Log,
		})
		if err != nil {
			return wrap("JWT_SECRET, JWT_JWKS_FILE", err)
		}
		p.Background = append(p.Background, jwt.Run)
		identity = jwt
	}
	measured := metrics.New(gate)
	api, err := httpapi.New(httpapi.Config{
		Orders: httpapi.FromService(svc), Gate: gate, Bans: history, Metrics: measured.Handler(), Decided: measured.Decided,
		Identity: identity, Tokens: tokens,
		CORSOrigins: cfg.CORSOrigins, TrustedProxies: cfg.TrustedProxies, Logger: p.Log, Version: version(), DecideWithin: within,
	})
	if err != nil {
		return err
	}
	p.Drain = api.Drain
	p.Listeners = append(p.Listeners,
		Listener{Name: "public", Addr: cfg.Listen, Handler: api.Public()},
		Listener{Name: "internal", Addr: cfg.InternalListen, Handler: api.Internal()})
	return nil
}

func rulesOf(cfg *config.Config) (*admission.Rules, error) {
	if cfg.RulesFile == "" {
		return admission.DefaultRules(), nil
	}
	rules, err := admission.LoadRules(cfg.RulesFile)
	return rules, wrap("RULES_FILE", err)
}

// addProbes gives a process without HTTP of its own a listener for livez and readyz.
func (p *Process) addProbes(addr string, ready func(context.Context) error) {
	handler, drain := httpapi.Probes(ready, version(), p.Log)
	p.Drain = drain
	p.Listeners = append(p.Listeners, Listener{Name: "worker", Addr: addr, Handler: handler})
}

// version is that of the module, or of the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return fmt.Sprintf("%.12s", s.Value)
		}
	}
	return "unknown"
}
