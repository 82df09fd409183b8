package serve

import (
	_ "embed"
	"log/slog"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/config"
)

// countedCaptcha is a provider of challenges with statistics.
type countedCaptcha interface {
	captcha.Provider
	Stats() captcha.Stats
}

// newCaptcha returns the provider that the settings name.
func newCaptcha(cfg *config.Config, rdb captcha.RedisClient, log *slog.Logger) (countedCaptcha, error) {
	used, err := captcha.NewRedisUsed(rdb, cfg.Namespace)
	if err != nil {
		return nil, err
	}
	proof, err := captcha.NewProofOfWork(captcha.ProofOfWorkOptions{
		Secret: []byte(cfg.Secret), PreviousSecret: []byte(cfg.PreviousSecret),
		Used: used,
	})
	if err != nil || cfg.Captcha == "" || cfg.Captcha == captcha.Own {
		return proof, err
	}
	site, err := captcha.NewSiteVerify(captcha.SiteVerifyOptions{
		Provider: cfg.Captcha, SiteKey: cfg.CaptchaSiteKey, Secret: string(cfg.CaptchaSecret), Hostnames: cfg.CaptchaHostnames, Used: used,
	})
	if err != nil {
		return nil, wrap("CAPTCHA", err)
	}
	return captcha.NewFallback(site, proof, captcha.FallbackOptions{Logger: log})
}

//go:embed captcha_rules.yaml
var captchaRules []byte

// newCaptchaLimit returns the gate that limits challenges. It counts in the same store, under its own names; while the store is away, each
// process admits the whole limit by itself. Its Run is not called: it bans no client, and its memory of refusals is at most a second old.
func newCaptchaLimit(cfg *config.Config, h *HTTP) (*admission.Gate, error) {
	rules, err := rules.Parse("captcha_rules.yaml", captchaRules)
	if err != nil {
		return nil, err
	}
	return admission.NewWithStore(h.Counts, rules,
		admission.Options{Secret: []byte(cfg.Secret), Namespace: cfg.Namespace + ":captcha", Timeout: h.gateWithin()})
}
