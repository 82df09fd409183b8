package koala_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/internal/dialects/koala"
)

var update = flag.Bool("update", false, "write testdata anew")

func convert(t testing.TB, path string) []byte {
	t.Helper()
	yaml, _, err := koala.Convert(path, zone(t, koala.DefaultZone))
	if err != nil {
		t.Fatal(err)
	}
	return yaml
}

// TestConvertSample: what the sample file becomes is what stands beside it.
func TestConvertSample(t *testing.T) {
	got := convert(t, "testdata/grammar.conf")
	const golden = "testdata/grammar.yaml"
	if *update {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if i >= len(gotLines) || i >= len(wantLines) || gotLines[i] != wantLines[i] {
			t.Fatalf("%s:%d is not what is written now (-update writes it anew):\n%s", golden, i+1, strings.Join(gotLines[min(i, len(gotLines)):min(i+5, len(gotLines))], "\n"))
		}
	}
}

// TestConvertKeepsComments: each line that is no rule and no dict stands in the result, in the order of the file.
func TestConvertKeepsComments(t *testing.T) {
	src, err := os.ReadFile("testdata/grammar.conf")
	if err != nil {
		t.Fatal(err)
	}
	rest, comments := string(convert(t, "testdata/grammar.conf")), 0
	for line := range strings.Lines(string(src)) {
		line = strings.TrimSpace(line)
		kept := line
		switch {
		case strings.HasPrefix(line, "#"):
			comments++
		case line == "" || strings.HasPrefix(line, "[") || strings.HasSuffix(line, ".dat"):
			continue
		default: // a rule or a result
			kept = "# " + line
		}
		_, after, ok := strings.Cut(rest, kept+"\n")
		if !ok {
			t.Errorf("%q is not there, or not in its place", kept)
			continue
		}
		rest = after
	}
	if comments < 25 {
		t.Errorf("the sample file has %d comments", comments)
	}
}

// TestConvertBlanks: a vertical tab is a blank of Koala's, and nothing that YAML may hold.
func TestConvertBlanks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.conf")
	writePolicy(t, path, "", "# of\vlines\nrule\v:\v[count] [uid=+]\v[time=600;\vcount=5] [result=2; return=201]")
	yaml := convert(t, path)
	if _, err := rules.Parse("rules.yaml", yaml); err != nil || !strings.Contains(string(yaml), "# of lines\n") {
		t.Errorf("%v in\n%q", err, yaml)
	}
}

// TestConvertedFileDecidesAlike: the service and a gate that has the converted file decide as many random requests alike.
func TestConvertedFileDecidesAlike(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	converted := filepath.Join(dir, "converted.yaml")
	if err := os.WriteFile(converted, convert(t, filepath.Join(dir, "grammar.conf")), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := rules.Load(converted)
	if err != nil {
		t.Fatal(err)
	}
	gate, err := admission.NewWithStore(stopped(), set, admission.Options{Secret: fileSecret})
	if err != nil {
		t.Fatal(err)
	}
	service, _, err := openFile(filepath.Join(dir, "grammar.conf"), stopped())
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	answers := map[int]int{}
	for i := range 5000 {
		params := randomParams(r)
		want := browse(t, service, params, true)
		got, err := gateAnswer(gate, params)
		if err != nil || got != want {
			t.Fatalf("request %d, %v: the service says %d, the converted file %d, %v", i, params, want, got, err)
		}
		answers[want]++
	}
	for _, code := range []int{0, -1, 101, 102, 103, 105, 201, 202, 301, 303, 304, 305, 306, 307, 401, 501, 503, 506, 510, 603} {
		if answers[code] == 0 {
			t.Errorf("no request was answered by %d: %v", code, answers)
		}
	}
}

// stopped is a store whose clock stands, so that no window ends for one of two stores and not for the other.
func stopped() store.Store {
	return memorystore.New(memorystore.Options{Now: func() time.Time { return time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC) }})
}

// gateAnswer is what browse returns, of a gate.
func gateAnswer(gate *admission.Gate, params koala.Params) (int, error) {
	req := admission.Request{Attributes: map[string]string{}}
	for name, value := range params {
		if name == "ip" {
			req.IP = netip.MustParseAddr(value)
		} else {
			req.Attributes[name] = value
		}
	}
	d, err := gate.Charge(context.Background(), req)
	if err != nil {
		return 0, err
	}
	for _, v := range d.Rules {
		var code int
		if _, err := fmt.Sscanf(v.Rule, "return-%d", &code); err != nil {
			return 0, err
		}
		if !v.Admitted || code < 200 { // those are direct
			return code, nil
		}
	}
	if len(d.Rules) == 0 {
		return 0, nil
	}
	return -1, nil
}

func randomParams(r *rand.Rand) koala.Params {
	pools := map[string][]string{
		"act":     {"ask", "a", "b", "remark", "invite", "vote", "add-review", "c++", "a;b", "] [", "other"},
		"uid":     {"1", "2", "3", "7", "666"},
		"film_id": {"1", "2", "3"},
		"qid":     {"1", "5", "7", "10", "11", "19", "45", "999", "1000", "1001", "x"},
		"uip":     {"192.168.0.1", "192.168.7.7", "10.0.24.7", "203.0.113.7", "2001:db8::1", "2001:db8:1::", "172.16.0.5", "fd00::1", "office", "11.0.0.1"},
		"ip":      {"192.0.2.1", fmt.Sprintf("192.0.2.%d", r.IntN(256)), fmt.Sprintf("2001:db8:%x::1", r.IntN(256))},
	}
	params := koala.Params{}
	for name, pool := range pools {
		if r.IntN(3) > 0 {
			params[name] = pool[r.IntN(len(pool))]
		}
	}
	return params
}
