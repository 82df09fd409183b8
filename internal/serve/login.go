package serve

import (
	"context"
	"net/netip"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/httpapi/charge"
	"github.com/tidegate/tidegate/internal/metrics"
	"github.com/tidegate/tidegate/login"
)

// addLogins adds the throttle of logins to a process.
func (p *Process) addLogins(
	cfg *config.Config, h *HTTP, gate, solutions *admission.Gate, challenges captcha.Provider, measured *metrics.Logins,
) (*login.Throttle, error) {
	throttle, err := login.New(h.Failures, gate.Rules, login.Options{
		Secret: []byte(cfg.Secret), PreviousSecret: []byte(cfg.PreviousSecret), Namespace: cfg.Namespace, Timeout: max(h.Within, loginWithin),
		Captcha: challenges,
		Solutions: func(ctx context.Context, ip netip.Addr) (time.Duration, bool) {
			d, err := solutions.Charge(ctx, admission.Request{IP: ip, Route: charge.SolutionRoute})
			return d.RetryAfter, err != nil || d.Admitted
		},
		Bans: sparing{gate, cfg.TrustedProxies}, History: h.History.Logins(),
		OnDecision: measured.Decided, Logger: p.Log,
	})
	if err != nil {
		return nil, err
	}
	measured.Dropped(throttle.Dropped)
	p.Background = append(p.Background, throttle.Run)
	return throttle, nil
}

// sparing never bans a trusted proxy: a backend that reports its proxy's address as the client's would otherwise get all logins
// banned.
type sparing struct {
	*admission.Gate
	proxies []netip.Prefix
}

// Ban implements login.Bans.
func (s sparing) Ban(ctx context.Context, order bans.Order) (bans.Ban, error) {
	for _, proxy := range s.proxies {
		if p, ok := order.Prefix(); ok && p.Overlaps(proxy) {
			return bans.Ban{}, bans.ErrRefused
		}
	}
	return s.Gate.Ban(ctx, order)
}
