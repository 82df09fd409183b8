package metrics_test

import (
	"testing"

	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/metrics"
)

type solvers captcha.Stats

func (s solvers) Stats() captcha.Stats { return captcha.Stats(s) }

func TestCaptcha(t *testing.T) {
	m := metrics.New("test")
	m.Captcha(solvers{Fallback: true, Providers: []captcha.ProviderStats{
		{Provider: "turnstile", Challenges: 5, Solved: 2, Unavailable: 3, Refused: map[captcha.Cause]uint64{captcha.CauseUsed: 1, captcha.CauseWrong: 0}},
		{Provider: "altcha", Challenges: 7},
	}})
	got := scrape(t, m)
	for name, want := range map[string]string{
		`tidegate_captcha_challenges_total{provider="turnstile"}`:            "5",
		`tidegate_captcha_challenges_total{provider="altcha"}`:               "7",
		`tidegate_captcha_solved_total{provider="turnstile"}`:                "2",
		`tidegate_captcha_unavailable_total{provider="turnstile"}`:           "3",
		`tidegate_captcha_refused_total{cause="used",provider="turnstile"}`:  "1",
		`tidegate_captcha_refused_total{cause="wrong",provider="turnstile"}`: "0",
		`tidegate_captcha_fallback`:                                          "1",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
}
