package admission_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
)

// A folder is rules in a directory, and a gate that follows them.
type folder struct {
	t    *testing.T
	dir  string
	gate *admission.Gate
	logs chan string // what the gate said, by its message
}

// followed opens a gate on a directory that build fills, whose rules stand in rules.yaml.
func followed(t *testing.T, build func(dir string)) *folder {
	t.Helper()
	f := &folder{t: t, dir: t.TempDir(), logs: make(chan string, 1000)}
	build(f.dir)
	set, err := rules.Load(filepath.Join(f.dir, "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	f.gate, err = admission.NewWithStore(memory(), set, admission.Options{Secret: secret, Logger: slog.New(said{f.logs})})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.gate.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return f
}

// said is a slog.Handler that records messages and errors.
type said struct{ to chan<- string }

func (s said) Enabled(context.Context, slog.Level) bool { return true }
func (s said) WithAttrs([]slog.Attr) slog.Handler       { return s }
func (s said) WithGroup(string) slog.Handler            { return s }
func (s said) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	s.to <- text
	return nil
}

func limitedTo(limit int) string {
	return one(fmt.Sprintf("name: r, subject: user, limit: %d, window: 1h", limit))
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// replace replaces a file atomically, as editors do.
func replace(t *testing.T, path, content string) {
	t.Helper()
	write(t, path+"~", content)
	if err := os.Rename(path+"~", path); err != nil {
		t.Fatal(err)
	}
}

// awaits waits until the rules in force have this limit.
func (f *folder) awaits(limit int) {
	f.t.Helper()
	f.awaitsLog("rules loaded")
	if got := check(f.t, f.gate, admission.Request{User: "ann"}).Limit; got != limit {
		f.t.Errorf("the limit is %d, want %d", got, limit)
	}
	if f.gate.Stats().RulesFailed {
		f.t.Error("Stats say that the rules are wrong")
	}
}

// awaitsLog waits until the gate has logged a message that contains text.
func (f *folder) awaitsLog(text string) {
	f.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case said := <-f.logs:
			if strings.Contains(said, text) {
				return
			}
		case <-timeout:
			f.t.Fatalf("waited for %q in vain", text)
		}
	}
}

// P27: a change reaches every process that follows the file, however it is made, and nothing has to be restarted.
func TestPitfall_P27_RulesFollowTheirFile(t *testing.T) {
	f := followed(t, func(dir string) { write(t, filepath.Join(dir, "rules.yaml"), limitedTo(1)) })
	version := f.gate.Rules().Version()
	path := f.path("rules.yaml")

	write(t, path, limitedTo(2))
	f.awaits(2)
	if f.gate.Rules().Version() == version || f.gate.Stats().Version != f.gate.Rules().Version() {
		t.Errorf("version %s, %+v", f.gate.Rules().Version(), f.gate.Stats())
	}

	replace(t, path, limitedTo(3))
	f.awaits(3)

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	f.awaitsLog("the last good ones stay in force")
	if got := check(t, f.gate, admission.Request{User: "ann"}).Limit; got != 3 || !f.gate.Stats().RulesFailed {
		t.Errorf("without a file: limit %d, %+v", got, f.gate.Stats())
	}
	write(t, path, limitedTo(4))
	f.awaits(4)
}

// Kubernetes mounts a ConfigMap as symbolic links through ..data, which it swaps.
func TestPitfall_P27_RulesFollowAConfigMap(t *testing.T) {
	version := func(dir, name string, limit int) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "rules.yaml"), limitedTo(limit))
	}
	link := func(target, path string) {
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	f := followed(t, func(dir string) {
		version(dir, "..1", 1)
		link("..1", filepath.Join(dir, "..data"))
		link("..data/rules.yaml", filepath.Join(dir, "rules.yaml"))
	})
	for limit := 2; limit < 5; limit++ {
		name := fmt.Sprint("..", limit)
		version(f.dir, name, limit)
		link(name, f.path("..data_tmp"))
		if err := os.Rename(f.path("..data_tmp"), f.path("..data")); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(f.path(fmt.Sprint("..", limit-1))); err != nil {
			t.Fatal(err)
		}
		f.awaits(limit)
	}
}

// An invalid file changes nothing, and the gate logs the position of the error.
func TestPitfall_P27_WrongRulesDoNotReplaceGoodOnes(t *testing.T) {
	f := followed(t, func(dir string) { write(t, filepath.Join(dir, "rules.yaml"), limitedTo(7)) })
	before := f.gate.Rules()
	write(t, f.path("rules.yaml"), limitedTo(-1))
	f.awaitsLog("rules.yaml:3:35: limit should be")
	set, err := f.gate.Reload()
	var place *rules.Error
	if set != before || !errors.As(err, &place) || place.Line != 3 {
		t.Errorf("Reload = %v, %v", set, err)
	}
	if f.gate.Rules() != before || !f.gate.Stats().RulesFailed {
		t.Errorf("in force: %v, %+v", f.gate.Rules(), f.gate.Stats())
	}
	write(t, f.path("rules.yaml"), limitedTo(8))
	f.awaits(8)
}

// A list is a part of the rules: its change is a new version.
func TestPitfall_P27_RulesFollowTheirLists(t *testing.T) {
	rules := "version: 1\nlists: {out: {file: lists/out.txt}}\nrules: [{name: r, match: {user: {list: out}}, algorithm: direct, action: deny}]\n"
	f := followed(t, func(dir string) {
		if err := os.Mkdir(filepath.Join(dir, "lists"), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "lists", "out.txt"), "bob\n")
		write(t, filepath.Join(dir, "rules.yaml"), rules)
	})
	before := f.gate.Rules().Version()
	if d := charge(t, f.gate, admission.Request{User: "ann"}); !d.Admitted {
		t.Fatalf("ann is on no list: %+v", d)
	}
	replace(t, f.path("lists/out.txt"), "bob\nann\n")
	f.awaitsLog("rules loaded")
	if d := charge(t, f.gate, admission.Request{User: "ann"}); d.Admitted || d.Version == before {
		t.Errorf("ann is on the list: %+v", d)
	}
	write(t, f.path("lists/out.txt"), "10.0.0.0/33\n")
	f.awaitsLog("out.txt:1:1: ")
	write(t, f.path("lists/out.txt"), "") // a disk is full, or a program has failed
	f.awaitsLog("out.txt:1:1: the file of list out has become empty")
	if d := charge(t, f.gate, admission.Request{User: "ann"}); d.Admitted || !f.gate.Stats().RulesFailed {
		t.Errorf("the list is emptied: %+v", d)
	}
	write(t, f.path("lists/out.txt"), "# none\n")
	if _, err := f.gate.Reload(); err != nil || !charge(t, f.gate, admission.Request{User: "ann"}).Admitted {
		t.Errorf("the list is empty on purpose: %v", err)
	}
}

func TestReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if _, err := rules.Load(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	write(t, path, limitedTo(1))
	set, err := rules.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	g, err := admission.NewWithStore(memory(), set, admission.Options{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := g.Reload(); again != set || err != nil {
		t.Errorf("an equal file: %v, %v", again, err)
	}
	if setRules(t, g, rules.Default()); g.Rules().Version() == set.Version() {
		t.Fatal("the default rules are those of the file")
	}
	if built, err := g.Reload(); built != g.Rules() || err != nil {
		t.Errorf("rules of no file: %v, %v", built, err)
	}
}

// Rules in another language are reloaded by their translator.
func TestReloadable(t *testing.T) {
	text, failure := limitedTo(1), error(nil)
	given := make([]string, 1, 8) // room that is the caller's
	given[0] = "rules.other"
	var load func() (*rules.Set, error)
	load = func() (*rules.Set, error) {
		set, err := rules.Parse("rules.yaml", []byte(text))
		if err != nil || failure != nil {
			return nil, errors.Join(err, failure)
		}
		return set.Reloadable(load, given...), nil
	}
	first, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if files := first.Reloadable(load, given...).Files(); !slices.Equal(files, []string{"rules.other", "rules.other"}) || given[:2][1] != "" {
		t.Errorf("files %v; of the caller %v", files, given[:2])
	}
	g, err := admission.NewWithStore(memory(), first, admission.Options{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	if set, err := g.Reload(); set != first || err != nil {
		t.Errorf("an equal text: %v, %v", set, err)
	}
	text = limitedTo(2)
	second, err := g.Reload()
	if err != nil || second.Version() == first.Version() || g.Rules() != second {
		t.Fatalf("another text: %v, %v", second, err)
	}
	failure = errors.New("not now")
	read := g.Stats().RulesLoaded
	if set, err := g.Reload(); set != second || !errors.Is(err, failure) || !g.Stats().RulesFailed || !g.Stats().RulesLoaded.Equal(read) {
		t.Errorf("after a failure: %v, %v", set, err)
	}
	failure = nil
	if set, err := g.Reload(); set != second || err != nil || g.Stats().RulesFailed || !g.Stats().RulesLoaded.After(read) {
		t.Errorf("after that: %v, %v", set, err)
	}
}

// Every decision is by one set of rules, while these change a hundred times.
func TestPitfall_P27_DecisionsWhileRulesChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	content := func(limit int) string {
		return limitedTo(limit) + fmt.Sprintf("\n- {name: s, subject: user, limit: %d, window: 2h}", limit)
	}
	write(t, path, content(1000))
	set, err := rules.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	g, err := admission.NewWithStore(memory(), set, admission.Options{Secret: secret, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil || n < 100; n++ {
				d, err := g.Charge(t.Context(), admission.Request{User: fmt.Sprint(i, n%5000)}) // the store has room for them, however long it takes
				if err != nil || !d.Admitted || len(d.Rules) != 2 || d.Rules[0].Limit != d.Rules[1].Limit {
					t.Errorf("Charge = %+v, %v", d, err)
					return
				}
			}
		})
	}
	for i := range 100 {
		write(t, path, content(1001+i))
		set, err := g.Reload()
		if err != nil || set != g.Rules() {
			t.Errorf("Reload = %v, %v", set, err)
		}
	}
	stop()
	wg.Wait()
	if got := check(t, g, admission.Request{User: "ann"}).Limit; got != 1100 {
		t.Errorf("the limit is %d, want 1100", got)
	}
}

func one(rule string) string { return "version: 1\nrules:\n- {" + rule + "}" }
