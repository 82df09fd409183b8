package deploy_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

type alert struct {
	Name        string `yaml:"alert"`
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	content, err := os.ReadFile("prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []alert } }
	if err := yaml.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	var all []alert
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// Who is woken by an alert is told what it is, how bad, and where it says what to do.
func TestAlertsSayWhatToDo(t *testing.T) {
	guide, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, a := range alerts(t) {
		if !strings.HasPrefix(a.Name, "Tidegate") || seen[a.Name] {
			t.Errorf("the name %s", a.Name)
		}
		seen[a.Name] = true
		if a.Labels["severity"] != "critical" && a.Labels["severity"] != "warning" {
			t.Errorf("%s has no severity: %v", a.Name, a.Labels)
		}
		if a.Annotations["summary"] == "" || !strings.HasSuffix(a.Annotations["description"], ".") {
			t.Errorf("%s does not say what it is: %v", a.Name, a.Annotations)
		}
		if want := "https://github.com/tidegate/tidegate/blob/main/docs/operations.md#" + strings.ToLower(a.Name); a.Annotations["runbook_url"] != want {
			t.Errorf("%s leads to %s, not to %s", a.Name, a.Annotations["runbook_url"], want)
		}
		if !slices.ContainsFunc(strings.Split(string(guide), "\n"), func(line string) bool {
			return strings.HasPrefix(line, "#") && strings.TrimLeft(line, "# ") == a.Name
		}) {
			t.Errorf("docs/operations.md has no heading %s", a.Name)
		}
	}
}

// api is where a series comes from.
const api = `{job="tidegate-api",instance="a"`

// raised are series that raise an alert, and such as are next to them and do not. A series is values fifteen seconds apart. Native histograms,
// which Debian's promtool cannot be told, are numbers here: see asNumbers.
var raised = []struct{ alert, bad, good string }{
	{"TidegateInvariantBroken", `tidegate_invariant_violations{sale="a"} 2x70; tidegate_invariants_verified_timestamp_seconds{sale="a"} 9x70`, `tidegate_invariant_violations{sale="a"} 0x70; tidegate_invariants_verified_timestamp_seconds{sale="a"} 9x70`},
	{
		"TidegateInvariantBroken", // what the last who verified it says
		`tidegate_invariant_violations{sale="a",instance="old"} 0x70; tidegate_invariants_verified_timestamp_seconds{sale="a",instance="old"} 8x70; tidegate_invariant_violations{sale="a",instance="new"} 2x70; tidegate_invariants_verified_timestamp_seconds{sale="a",instance="new"} 9x70`,
		`tidegate_invariant_violations{sale="a",instance="old"} 2x70; tidegate_invariants_verified_timestamp_seconds{sale="a",instance="old"} 8x70; tidegate_invariant_violations{sale="a",instance="new"} 0x70; tidegate_invariants_verified_timestamp_seconds{sale="a",instance="new"} 9x70`,
	},
	{"TidegateNotVerified", `tidegate_stock_units{sale="a",item="i"} 9x70; tidegate_invariants_verified_timestamp_seconds{sale="a"} 1x70`, `tidegate_stock_units{sale="a",item="i"} 9x70; tidegate_invariants_verified_timestamp_seconds{sale="a"} 0+15x70`},
	{"TidegateRecovering", `tidegate_stock_units{sale="a",item="i"} 9x70; tidegate_free_units{sale="a",item="j"} 9x70`, `tidegate_stock_units{sale="a",item="i"} 9x70; tidegate_free_units{sale="a",item="i"} 0x70`},
	{"TidegateOutboxOld", `tidegate_outbox_oldest_seconds 31x70`, `tidegate_outbox_oldest_seconds 29x70`},
	{"TidegateDeadLetters", `tidegate_dead_letters 1x70`, `tidegate_dead_letters 0x70`},
	{"TidegateCommitsSlow", `tidegate_commit_duration_seconds 1.1x70`, `tidegate_commit_duration_seconds 0.9x70`},
	{"TidegateDown", `up{job="tidegate-api"} 0x70`, `up{job="tidegate-api"} 1x70; up{job="else"} 0x70`},
	{"TidegateDown", `up{job="tidegate-worker",instance="a"} 1x70; up{job="tidegate-worker",instance="b"} 1x40 stale`, `up{job="tidegate-worker",instance="a"} 1x40 stale; up{job="tidegate-worker",instance="b"} 1x70; up{job="tidegate-worker",instance="c"} _x40 1x29`},
	{"TidegateNoAPI", `up{job="tidegate-worker"} 1x70`, `up{job="tidegate-api",instance="a"} 1x70; up{job="tidegate-api",instance="b"} 0x70`},
	{"TidegateNoWorker", `up{job="tidegate-worker"} 0x70`, `up{job="tidegate-worker"} 1x70`},
	{"TidegateNumbersMissing", `up` + api + `} 1x70; tidegate_dead_letters` + api + `} 0x70; tidegate_queue_oldest_pending_seconds` + api + `,queue="q"} 0x70`, `up` + api + `} 0x70; up{job="else"} 1x70`},
	{"TidegateNumbersMissing", `up` + api + `} 1x70; tidegate_outbox_orders` + api + `} 0x70; tidegate_queue_oldest_pending_seconds` + api + `,queue="q"} 0x70`, `up` + api + `} 0x70`},
	{"TidegateNumbersMissing", `up` + api + `} 1x70; tidegate_outbox_orders` + api + `} 0x70; tidegate_dead_letters` + api + `} 0x70; tidegate_outbox_orders{job="tidegate-api",instance="b"} 0x70; tidegate_dead_letters{job="tidegate-api",instance="b"} 0x70; tidegate_queue_oldest_pending_seconds{job="tidegate-api",instance="b",queue="q"} 0x70`, `up` + api + `} 1x70; tidegate_outbox_orders` + api + `} 0x70; tidegate_dead_letters` + api + `} 0x70; tidegate_queue_oldest_pending_seconds` + api + `,queue="q"} 0x70`},
	{"TidegateCondition", `tidegate_condition{cause="sales",instance="a"} 1x70; tidegate_condition{cause="sales",instance="b"} 0x70`, `tidegate_condition{cause="sales"} 0x70; tidegate_condition{cause="redis"} 0 1 0x68`},
	{"TidegateDegraded", `tidegate_admission_degraded{instance="a"} 1x70; tidegate_admission_degraded{instance="b"} 0x70`, `tidegate_admission_degraded 0x70`},
	{"TidegateDegraded", `tidegate_admission_degraded 0x70; tidegate_answers_total{answer="store_unavailable"} 0+2x70; tidegate_answers_total{answer="admitted"} 0+8x70`, `tidegate_answers_total{answer="store_unavailable"} 0+1x70; tidegate_answers_total{answer="admitted"} 0+24x70`},
	{
		"TidegateErrors",
		`tidegate_http_request_duration_seconds{listener="public",route="/a",code="503"} 0+1x70; tidegate_http_request_duration_seconds{listener="public",route="/a",code="200"} 0+9x70; tidegate_http_request_duration_seconds{listener="public",route="/b",code="200"} 0+900x70; tidegate_http_request_duration_seconds{listener="internal",route="/a",code="200"} 0+900x70`,
		`tidegate_http_request_duration_seconds{listener="public",route="/a",code="503"} 0+1x70; tidegate_http_request_duration_seconds{listener="public",route="/a",code="200"} 0+24x70; tidegate_http_request_duration_seconds{listener="public",route="/readyz",code="503"} 0+9x70; tidegate_http_request_duration_seconds{listener="public",route="other",code="501"} 0+9x70; tidegate_http_request_duration_seconds{listener="operator",route="/b",code="503"} 0+9x70`,
	},
	{"TidegateErrors", `tidegate_http_request_duration_seconds{listener="public",route="/a",code="500"} 0+1x70`, `tidegate_http_request_duration_seconds{listener="public",route="/a",code="500"} 0x50 5x19`}, // seldom called, and failed five times
	{"TidegateAtCapacity", `tidegate_answers_total{answer="at_capacity"} 0+2x70; tidegate_answers_total{answer="admitted"} 0+8x70`, `tidegate_answers_total{answer="at_capacity"} 7x70; tidegate_answers_total{answer="admitted"} 0+8x70`},
	{"TidegateDecisionsSlow", `tidegate_decision_duration_seconds 0.11x70`, `tidegate_decision_duration_seconds 0.09x70`},
	{"TidegateDescriptors", `process_open_fds` + api + `} 900x70; process_max_fds` + api + `} 1024x70`, `process_open_fds` + api + `} 700x70; process_max_fds` + api + `} 1024x70; tidegate_http_connections_refused_total` + api + `,listener="public",cause="full"} 9x70`},
	{"TidegateDescriptors", `tidegate_http_connections_refused_total` + api + `,listener="public",cause="full"} 0+1x70`, `tidegate_http_accept_errors_total` + api + `,listener="public"} 9x70`},
	{"TidegateDescriptors", `tidegate_http_accept_errors_total` + api + `,listener="public"} 0+1x70`, `tidegate_http_connections_reclaimed_total` + api + `,listener="public"} 0+1x70`},
	{"TidegatePostgresBusy", `tidegate_postgres_waited_seconds_total 0+30x70`, `tidegate_postgres_waited_seconds_total 0+1x70`},
	{"TidegatePostgresBusy", `tidegate_postgres_gave_up_total 0+3x70`, `tidegate_postgres_gave_up_total 0+1x70`},
	{"TidegateQueueOld", `tidegate_queue_oldest_pending_seconds{queue="q"} 61x70`, `tidegate_queue_oldest_pending_seconds{queue="q"} 59x70`},
	{"TidegateTasksGivenUp", `tidegate_queue_tasks{queue="q",state="archived"} 1x70`, `tidegate_queue_tasks{queue="q",state="retry"} 1x70`},
	{"TidegateLaterVersion", `tidegate_later_version_total{kind="task"} 0+1x70`, `tidegate_later_version_total{kind="task"} 0 1x70`}, // once, during an upgrade
	{"TidegateReloadFailed", `tidegate_reload_failed{instance="a",setting="JWT_JWKS_URL"} 1x70; tidegate_reload_failed{instance="a",setting="RULES_FILE"} 0x70`, `tidegate_reload_failed{instance="a",setting="JWT_JWKS_URL"} 0 1 0x68`},
	{"TidegateRulesDiffer", `tidegate_rules_info{version="a"} 1x70; tidegate_rules_info{version="b"} 1x70`, `tidegate_rules_info{version="a",instance="a"} 1x70; tidegate_rules_info{version="a",instance="b"} 1x70`},
	{"TidegateBanScriptStopped", `tidegate_ban_script_executable{instance="a"} 0x70; tidegate_ban_script_executable{instance="b"} 1x70`, `tidegate_ban_script_executable 1x70`},
	{"TidegateBanBreakerOpen", `tidegate_ban_script_breaker_open 1x70`, `tidegate_ban_script_breaker_open 0x70`},
	{"TidegateCaptchaFallback", `tidegate_captcha_fallback 1x70`, `tidegate_captcha_fallback 0x70`},
	{"TidegateLoginsDegraded", `tidegate_login_degraded_total 0+1x70`, `tidegate_login_degraded_total 7x70`},
	{"TidegateSemaphoreLost", `tidegate_semaphore_lost_total{semaphore="s"} 0+1x70`, `tidegate_semaphore_lost_total{semaphore="s"} 7x70`},
	{"TidegateSemaphoreQuiet", `tidegate_semaphore_quiet_seconds{semaphore="s"} 3x70`, `tidegate_semaphore_quiet_seconds{semaphore="s"} 0x70`},
}

// asNumbers are alerts that take a count of a histogram for a counter, and a quantile for a gauge.
func asNumbers(rules string) string {
	rules = regexp.MustCompile(`histogram_quantile\([0-9.]+, sum\(rate\((\w+)\[\w+\]\)\)\)`).ReplaceAllString(rules, "max($1)")
	return regexp.MustCompile(`histogram_count\((rate\([^()]*\))\)`).ReplaceAllString(rules, "$1")
}

// Every alert is raised by what it is for, and not by what is next to it. Each has rules and tests of its own, so that no other alert is
// evaluated with it.
func TestAlertsAreRaised(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	args := []string{"test", "rules"}
	for _, a := range alerts(t) {
		rules := write(a.Name+".yml", fmt.Sprintf("groups: [{name: alone, rules: [{alert: %s, expr: %q, for: %s}]}]", a.Name, asNumbers(a.Expr), cmp.Or(a.For, "0s")))
		test := fmt.Sprintf("rule_files: [%q]\nevaluation_interval: 15s\ntests:\n", rules)
		known := false
		for i, series := range raised {
			if series.alert != a.Name {
				continue
			}
			known = true
			for values, want := range map[string]int{series.bad: 1, series.good: 0} {
				test += fmt.Sprintf("- interval: 15s\n  name: %s, line %d\n  input_series:\n", series.alert, i+1)
				for one := range strings.SplitSeq(values, "; ") {
					name, values, _ := strings.Cut(one, " ")
					test += fmt.Sprintf("  - {series: '%s', values: '%s'}\n", name, values)
				}
				test += fmt.Sprintf("  promql_expr_test: [{expr: 'count(ALERTS{alertname=\"%s\",alertstate=\"firing\"}) or vector(0)', eval_time: 16m, exp_samples: [{labels: '{}', value: %d}]}]\n", series.alert, want)
			}
		}
		if !known {
			t.Errorf("nothing raises %s", a.Name)
			continue
		}
		args = append(args, write(a.Name+".test.yml", test))
	}
	if out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
