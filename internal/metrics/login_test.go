package metrics_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/metrics"
	"github.com/tidegate/tidegate/login"
)

func TestLogins(t *testing.T) {
	m := metrics.New("test")
	l := m.Logins()
	l.Dropped(func() uint64 { return 7 })
	for range 2 {
		l.Decided("reserve", &login.Decision{Action: login.Allow, ID: "secret"})
	}
	l.Decided("check", &login.Decision{Action: login.Challenge, Reason: "name_failures", Rule: "r", Shadow: "s", Degraded: true})
	for _, result := range []string{"success", "late", "late"} {
		l.Settled(result)
	}
	got := scrape(t, m)
	maps.DeleteFunc(got, func(name, _ string) bool { return !strings.HasPrefix(name, "tidegate_login_") })
	want := map[string]string{
		`tidegate_login_attempts_total{decision="allow",mode="reserve",reason="none"}`:            "2",
		`tidegate_login_attempts_total{decision="challenge",mode="check",reason="name_failures"}`: "1",
		`tidegate_login_outcomes_total{result="success"}`:                                         "1",
		`tidegate_login_outcomes_total{result="late"}`:                                            "2",
		`tidegate_login_shadow_total{rule="s"}`:                                                   "1",
		"tidegate_login_degraded_total":                                                           "1",
		"tidegate_login_history_dropped_total":                                                    "7",
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
