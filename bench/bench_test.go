package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// brief runs tables as briefly as can be: whether every contender works, not how fast.
func brief(t *testing.T, only string) string {
	t.Helper()
	var out bytes.Buffer
	r, err := parse([]string{"-rounds", "2", "-turn", "20ms", "-callers", "16", "-subjects", "100", "-only", only}, &out)
	if err != nil {
		t.Fatal(err)
	}
	r.redis, r.window = startRedis(t), 200*time.Millisecond
	if err := r.all(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// rows returns the cells of a table's rows by the first of them.
func rows(text string) map[string][]string {
	found := map[string][]string{}
	for line := range strings.Lines(text) {
		if cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|"); len(cells) > 1 {
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			found[cells[0]] = cells[1:]
		}
	}
	return found
}

func TestExactness(t *testing.T) {
	found := rows(brief(t, "exact"))
	for _, name := range []string{"sliding_log", "sliding_counter", "gcra", "fixed_window", "sliding_log, memory"} {
		cells := found[name]
		if len(cells) != 4 || cells[0] != "10" || cells[1] != "10" {
			t.Errorf("%s: %v, want 10 of 15 and 10 of all at once", name, cells)
		}
		if strings.HasPrefix(name, "sliding_log") && (len(cells) != 4 || cells[3] != "exact") {
			t.Errorf("%s: %v, want never more than 10", name, cells)
		}
	}
	if len(found) < 11 {
		t.Errorf("%d rows: %v", len(found), found)
	}
}

func TestEveryContenderIsMeasured(t *testing.T) {
	text := brief(t, "redis,denials,memory,bytes,flat")
	t.Log(text)
	for name, least := range map[string]int{"### ": 9, "redis_rate v10 ": 4, "go-limiter": 2, "ulule": 6, "throttled": 4} {
		if n := strings.Count(text, name); n < least {
			t.Errorf("%q is in the tables %d times, want %d", name, n, least)
		}
	}
	if strings.Contains(text, "ailed") || regexp.MustCompile(`NaN|Inf| 0\.0 k`).MatchString(text) {
		t.Error("somebody failed")
	}
}

// A turn that admits all requests or none would measure something other than intended.
func TestAdmissionsAreCounted(t *testing.T) {
	r := &run{redis: startRedis(t), rounds: 1, callers: 4, subjects: 1, length: 200 * time.Millisecond}
	for _, c := range []contender{gateOnMemory("ours", "sliding_log", noCache), redisRate, ululeMemory, goLimiter} {
		res, err := r.turn(t.Context(), trial{limit: 3, window: time.Hour, subjects: 1, sample: 1}, c, []string{"ann"}, 0)
		if err != nil || res.admitted != 3 || res.asked <= 3 || res.failed != 0 {
			t.Errorf("%s: %+v, %v", c.name, res, err)
		}
	}
}

func TestDensestSpan(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		what  string
		units []unit
		want  int
	}{
		{"none", nil, 0},
		{"both borders", []unit{{0, 0}, {9 * ms, 9 * ms}, {10 * ms, 10 * ms}, {18 * ms, 18 * ms}, {19 * ms, 19 * ms}}, 3},
		{"the end is not within", []unit{{0, 0}, {10 * ms, 10 * ms}}, 1},
		{"the way counts for the limiter", []unit{{0, 1 * ms}, {9 * ms, 10 * ms}}, 1},
	} {
		if got := densest(tc.units, 10*ms); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.what, got, tc.want)
		}
	}
}

func TestMedianAndRatio(t *testing.T) {
	for _, tc := range []struct {
		of   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 3}, 2.5}} {
		if got := median(tc.of); got != tc.want {
			t.Errorf("median(%v) = %v", tc.of, got)
		}
	}
	rates := func(values ...float64) (out []result) {
		for _, v := range values {
			out = append(out, result{perSecond: v})
		}
		return out
	}
	if got := ratio(rates(10, 30, 60), rates(10, 10, 20)); got != "3.00 (1.00–3.00)" {
		t.Error(got)
	}
}

// A stack's figures are compared with another's over all turns and over each half, and costs too small to be measured with none.
func TestComparison(t *testing.T) {
	t.Parallel()
	figure := func(v float64) float64 { return v }
	for want, turns := range map[string][2][]float64{
		"1.00 (0.50, 1.50)": {{1, 3}, {2, 2}},
		"– (–, –)":          {{1, 3}, {0, 0}},
		"0.50 (–, 0.50)":    {{1}, {2}},
	} {
		c := comparison[float64]{[]string{"ours", "other"}, map[string][]float64{"ours": turns[0], "other": turns[1]}}
		if got := c.quotients(figure); len(got) != 1 || got[0] != want {
			t.Errorf("%v: %q, want %q", turns, got, want)
		}
	}
}

func TestWrongFlags(t *testing.T) {
	for _, args := range [][]string{{"-only", "speed"}, {"-rounds", "0"}, {"-turn", "0s"}, {"-contenders", "("}} {
		if _, err := parse(args, &bytes.Buffer{}); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}
