package serve

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/dialects/koala"
	"github.com/tidegate/tidegate/internal/dialects/koala/koalahttp"
	"github.com/tidegate/tidegate/internal/firewall"
	"github.com/tidegate/tidegate/internal/history"
	"github.com/tidegate/tidegate/internal/httpapi"
	"github.com/tidegate/tidegate/internal/httpapi/live"
	"github.com/tidegate/tidegate/internal/livepage"
	"github.com/tidegate/tidegate/internal/semregistry"
	"github.com/tidegate/tidegate/login"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop"
	"github.com/tidegate/tidegate/semaphore"
	"github.com/tidegate/tidegate/waitingroom"
)

// HTTP is what a process needs for its listeners, besides its configuration. Within is optional.
type HTTP struct {
	Orders     *shop.Service
	Counts     store.Store
	Redis      *Redis
	BanScript  bool // run the ban script here, because there is no separate worker
	Semaphores *semregistry.Table
	Rooms      waitingroom.Store
	Failures   login.Store // of logins
	History    *history.History
	Within     time.Duration // bounds the decision on an order or a login; 0 is the default
}

// gateWithin bounds the rules, which leave a quarter of a decision's time to the reservation.
func (h *HTTP) gateWithin() time.Duration { return h.Within * 3 / 4 }

// AddHTTP adds the public and the internal listener to a process. It waits for the keys of JWT_JWKS_URL.
func (p *Process) AddHTTP(ctx context.Context, cfg *config.Config, h HTTP) error {
	parts, err := p.apiConfig(ctx, cfg, &h)
	if err != nil {
		return err
	}
	api, err := httpapi.New(parts)
	if err != nil {
		return err
	}
	p.Metrics.Reloads(p.reloads)
	p.Metrics.Capacity(api)
	p.Metrics.Remembered(h.Orders)
	p.Background = append(p.Background, api.RunLive,
		func(ctx context.Context) error { return h.Orders.VerifyInBackground(ctx, p.Metrics.Verified) })
	p.Drain = api.Drain
	p.Listeners = append(p.Listeners,
		Listener{Name: "public", Addr: cfg.Listen, Handler: api.Public(), Loaded: true, Public: true, Proxies: cfg.TrustedProxies},
		Listener{Name: "internal", Addr: cfg.InternalListen, Handler: api.Internal()})
	return nil
}

// apiConfig makes the parts of an API, and adds what they do in the background to the process.
func (p *Process) apiConfig(ctx context.Context, cfg *config.Config, h *HTTP) (c httpapi.Config, err error) {
	gate, err := p.addGate(cfg, h)
	if err != nil {
		return c, err
	}
	measured, recorder := p.Metrics, livepage.NewRecorder()
	decided := func(req *admission.Request, d *admission.Decision, took time.Duration) {
		measured.Decided(req, d, took)
		recorder.Decided(req, d)
	}
	c = httpapi.Config{
		Orders: httpapi.FromService(h.Orders), Gate: gate, Bans: h.History.Bans(), Audit: h.History.Changes(), LoginHistory: h.History.Logins(),
		Secret: []byte(cfg.Secret), PreviousSecret: []byte(cfg.PreviousSecret), DemoSecrets: cfg.DemoSecrets,
		Live:    &live.Options{Recorder: recorder, RoundTrips: measured.RoundTrips, Degraded: measured.Degraded, Invariants: measured.Invariants},
		Metrics: measured.Handler(), Decided: decided, Served: measured.Served, JWTRefused: measured.JWTRefused, Verified: measured.Verified,
		Outdated: p.outdated, Opening: p.opening.Load,
		Sessions: sessions{h.Redis.Decisions.UniversalClient, cfg.Namespace}, CORSOrigins: cfg.CORSOrigins, CORSHeaders: cfg.CORSHeaders,
		VWRIssuers: cfg.VWRIssuers, TrustedProxies: cfg.TrustedProxies,
		Tracer: p.Tracer, Logger: p.Log, Version: Version(), DecideWithin: h.Within,
	}
	if c.Semaphores, err = p.addSemaphores(h.Redis.Decisions.UniversalClient, h.Semaphores, semregistry.Options{
		Namespace: cfg.Namespace, Rules: gate.Rules, BuiltIn: semregistry.BuiltIn(), Logger: p.Log,
	}); err != nil {
		return c, err
	}
	if c.Tokens, err = p.addTokens(cfg); err != nil {
		return c, err
	}
	if c.Identity, err = p.addIdentity(ctx, cfg); err != nil {
		return c, err
	}
	measured.Gate(gate)
	measured.HTTP()
	p.measureInstallation(cfg.Namespace, h.Orders, h.Redis)
	measured.Add(recorder)
	measured.Semaphores(c.Semaphores)
	if h.BanScript {
		script, err := p.addBanScript(cfg, h.Redis, h.Counts, gate.Rules)
		if err != nil {
			return c, err
		}
		measured.Add(script)
	}
	if err := p.addHurdles(cfg, h, gate, &c); err != nil {
		return c, err
	}
	c.Koala, err = p.addKoala(cfg, h, func(req *admission.Request, d *admission.Decision, took time.Duration) {
		decided(req, d, took)
		answer := string(d.Reason)
		if d.Admitted {
			answer = livepage.Admitted
		}
		if recorder.Answered(answer, took) {
			recorder.Show(answer, d.Rule, req)
		}
	})
	return c, err
}

// addGate adds the rules and the history of bans to a process.
func (p *Process) addGate(cfg *config.Config, h *HTTP) (gate *admission.Gate, err error) {
	set, err := rulesOf(cfg)
	if err != nil {
		return nil, err
	}
	gate, err = admission.NewWithStore(h.Counts, set, admission.Options{
		Secret: []byte(cfg.Secret), Namespace: cfg.Namespace, Timeout: h.gateWithin(), Logger: p.Log,
		History: firewall.NewHistory(h.History.Bans(), h.Redis.Queue, cfg.Namespace, func() *rules.Set { return gate.Rules() }),
	})
	if err != nil {
		return nil, err
	}
	if cfg.RulesFile != "" {
		p.rulesReloaded("RULES_FILE", gate.Stats)
	}
	p.Background = append(p.Background, gate.Run)
	if keep := time.Duration(cfg.HistoryDays) * 24 * time.Hour; keep > 0 {
		p.Background = append(p.Background, func(ctx context.Context) error { return h.History.Run(ctx, keep, p.Log) })
	}
	return gate, nil
}

// addTokens adds the tokens of the internal listener to a process; nil: there are none.
func (p *Process) addTokens(cfg *config.Config) (tokens *auth.Tokens, err error) {
	secrets := map[string]config.Secret{"SECRET": cfg.Secret, "SECRET_PREVIOUS": cfg.PreviousSecret, "JWT_SECRET": cfg.JWTSecret}
	switch {
	case cfg.TokensFile != "":
		tokens, err = auth.LoadTokens(cfg.TokensFile, cfg.AllowDemo, p.Log, string(cfg.Secret), string(cfg.PreviousSecret), string(cfg.JWTSecret))
		if err != nil {
			return nil, wrap("TOKENS_FILE", err)
		}
		p.Reloaded = append(p.Reloaded, tokens.Source().State)
	case cfg.InternalToken != "":
		tokens, err = auth.NewTokens(string(cfg.InternalToken), string(cfg.MetricsToken))
		err = wrap("INTERNAL_TOKEN", err)
	}
	if err != nil || tokens == nil {
		return nil, err
	}
	for name, secret := range secrets {
		if tokens.Contain(string(secret)) {
			return nil, fmt.Errorf("%s must differ from every token: whoever has that token could sign what the secret signs", name)
		}
	}
	p.Background = append(p.Background, tokens.Run)
	return tokens, nil
}

// addIdentity adds the identification of public callers to a process.
func (p *Process) addIdentity(ctx context.Context, cfg *config.Config) (auth.Identity, error) {
	if cfg.Identity != config.IdentityJWT {
		return auth.HeaderIdentity{}, nil
	}
	jwt, err := auth.NewJWT(auth.JWTOptions{
		Secret: []byte(cfg.JWTSecret), JWKSFile: cfg.JWKSFile, JWKSURL: cfg.JWKSURL, Issuer: cfg.JWTIssuer, Audience: cfg.JWTAudience,
		Logger: p.Log,
	})
	if err != nil {
		return nil, wrap("JWT_SECRET, JWT_JWKS_FILE, JWT_JWKS_URL", err)
	}
	if cfg.JWKSURL != "" {
		// Without keys every token would be refused. A start that fails lets an orchestrator keep older processes, which have keys.
		if err := await(ctx, p.Log, StartTimeout, dependency{"JWT_JWKS_URL", config.URL(cfg.JWKSURL), jwt.Load}); err != nil {
			return nil, err
		}
	}
	if source := jwt.Source(); source != nil {
		p.Reloaded = append(p.Reloaded, source.State)
	}
	p.Background = append(p.Background, jwt.Run)
	return jwt, nil
}

// addHurdles adds what is asked of callers besides the rules: challenges, logins and waiting rooms.
func (p *Process) addHurdles(cfg *config.Config, h *HTTP, gate *admission.Gate, c *httpapi.Config) error {
	challenges, err := newCaptcha(cfg, h.Redis.Decisions.UniversalClient, p.Log)
	if err != nil {
		return err
	}
	p.Metrics.Captcha(challenges)
	limit, err := newCaptchaLimit(cfg, h)
	if err != nil {
		return err
	}
	logins := p.Metrics.Logins()
	throttle, err := p.addLogins(cfg, h, gate, limit, challenges, logins)
	if err != nil {
		return err
	}
	if c.Rooms, err = p.addRooms(cfg, h, gate); err != nil {
		return err
	}
	p.Metrics.Rooms(c.Rooms)
	c.Captcha, c.CaptchaLimit, c.Login, c.Settled = challenges, limit, throttle, logins.Settled
	return nil
}

// addKoala adds Koala's endpoints to a process, if it has a rule file for them.
func (p *Process) addKoala(
	cfg *config.Config, h *HTTP, decided func(*admission.Request, *admission.Decision, time.Duration),
) (koalahttp.Service, error) {
	if cfg.KoalaFile == "" {
		return nil, nil
	}
	service, err := koala.New(h.Counts, koala.Options{
		Path: cfg.KoalaFile, Zone: cfg.KoalaZone, Secret: []byte(cfg.Secret), Namespace: cfg.Namespace, Timeout: h.gateWithin(), Logger: p.Log,
		Decided: decided,
		Alive:   func(ctx context.Context) error { return h.Redis.Decisions.Ping(ctx).Err() },
	})
	if err != nil {
		return nil, wrap("KOALA_FILE", err)
	}
	p.rulesReloaded("KOALA_FILE", service.Stats)
	p.Background = append(p.Background, service.Run)
	return service, nil
}

// addSemaphores adds the semaphores to a process. They end last, when waiters and holders are gone: see Run.
func (p *Process) addSemaphores(rdb semaphore.Client, table *semregistry.Table, opts semregistry.Options) (*semregistry.Registry, error) {
	semaphores, err := semregistry.New(rdb, table, opts)
	if err != nil {
		return nil, err
	}
	p.Background = append(p.Background, semaphores.Run)
	return semaphores, nil
}

// addProbes adds a listener for livez, readyz and metrics to a process without an API.
func (p *Process) addProbes(cfg *config.Config, conditions func(context.Context) []orders.Condition, measured http.Handler) {
	handler, drain := httpapi.Probes(conditions, Version(), cfg.DemoSecrets, p.outdated, measured, p.Log)
	p.Drain = drain
	p.Listeners = append(p.Listeners, Listener{Name: "worker", Addr: cfg.WorkerListen, Handler: handler})
}
