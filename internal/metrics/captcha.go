package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/captcha"
)

// Captcha is the source of the metrics: a captcha.Provider.
type Captcha interface{ Stats() captcha.Stats }

// Captcha adds the metrics of challenges.
func (m *Metrics) Captcha(c Captcha) {
	m.registry.MustRegister(challenges{c})
	m.troubles = append(m.troubles, func() []string {
		if c.Stats().Fallback {
			return []string{"the CAPTCHA provider does not answer; proof of work replaces it"}
		}
		return nil
	})
}

// challenges collects the statistics of a provider.
type challenges struct{ from Captcha }

var (
	captchaMade        = describe("captcha_challenges_total", "Challenges issued.", "provider")
	captchaSolved      = describe("captcha_solved_total", "Solutions that were accepted.", "provider")
	captchaRefused     = describe("captcha_refused_total", "Solutions that were rejected, by cause.", "provider", "cause")
	captchaUnavailable = describe("captcha_unavailable_total", "Solutions that could not be verified.", "provider")
	captchaFallback    = describe("captcha_fallback", "1 while the CAPTCHA provider is unavailable and proof of work replaces it, else 0.")
)

// Describe implements prometheus.Collector.
func (c challenges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{captchaMade, captchaSolved, captchaRefused, captchaUnavailable, captchaFallback} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c challenges) Collect(ch chan<- prometheus.Metric) {
	now := c.from.Stats()
	ch <- prometheus.MustNewConstMetric(captchaFallback, prometheus.GaugeValue, number(now.Fallback))
	for _, p := range now.Providers {
		count := func(d *prometheus.Desc, n uint64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), append([]string{p.Provider}, labels...)...)
		}
		count(captchaMade, p.Challenges)
		count(captchaSolved, p.Solved)
		count(captchaUnavailable, p.Unavailable)
		for cause, n := range p.Refused {
			count(captchaRefused, n, string(cause))
		}
	}
}
