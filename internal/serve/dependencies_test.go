package serve_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestDependenciesOfTheCore: importers of a package get only the dependencies that it needs. A new line here is a decision.
func TestDependenciesOfTheCore(t *testing.T) {
	const ours = "github.com/tidegate/tidegate/"
	goredis := []string{"github.com/redis/go-redis/v9", "github.com/cespare/xxhash/v2", "go.uber.org/atomic", "golang.org/x/sys"}
	redisclient := append([]string{ours + "redisclient"}, goredis...)
	bans := append([]string{ours + "bans", ours + "internal/failure", ours + "internal/input", ours + "internal/netaddr", ours + "internal/periodic", ours + "internal/pubsub", ours + "internal/redisscript"}, redisclient...)
	admission := append([]string{
		ours + "admission", ours + "admission/rules", ours + "admission/store", ours + "admission/internal/algorithm",
		ours + "admission/store/memorystore", ours + "admission/store/redisstore", ours + "internal/batch", ours + "internal/bounded", ours + "internal/breaker", ours + "internal/dialects", ours + "internal/filewatch", ours + "internal/keyhash", ours + "internal/lazydeadline",
		ours + "internal/names", ours + "internal/periodic", ours + "internal/rulesfile", "github.com/goccy/go-yaml", "github.com/maypok86/otter/v2", "github.com/fsnotify/fsnotify",
	}, bans...)
	echo := []string{
		"github.com/labstack/echo/v4", "github.com/labstack/gommon", "github.com/mattn/go-colorable", "github.com/mattn/go-isatty",
		"github.com/valyala/bytebufferpool", "github.com/valyala/fasttemplate", "golang.org/x/crypto", "golang.org/x/net",
		"golang.org/x/text", "golang.org/x/time",
	}
	semaphore := []string{
		ours + "semaphore", ours + "internal/batch", ours + "internal/failure", ours + "internal/keyhash", ours + "internal/lazydeadline", ours + "internal/names", ours + "internal/periodic", ours + "internal/pubsub", ours + "internal/redisscript", "github.com/redis/go-redis/v9", "github.com/cespare/xxhash/v2", "go.uber.org/atomic", "golang.org/x/sync", "golang.org/x/sys",
	}
	http := append([]string{ours + "admission/admissionhttp", ours + "internal/httpproblem"}, admission...)
	for name, allowed := range map[string][]string{
		"admission":               admission,
		"bans":                    bans,
		"admission/admissionhttp": http,
		"admission/admissionecho": slices.Concat([]string{ours + "admission/admissionecho"}, echo, http),
		"captcha": {
			ours + "captcha", ours + "internal/bounded", ours + "internal/breaker", ours + "internal/keyhash", ours + "internal/names", ours + "internal/staticfiles", "github.com/altcha-org/altcha-lib-go", "github.com/redis/go-redis/v9", "github.com/cespare/xxhash/v2", "go.uber.org/atomic",
			"golang.org/x/sys",
		},
		"redisclient": {
			ours + "redisclient", "github.com/redis/go-redis/v9", "github.com/cespare/xxhash/v2", "go.uber.org/atomic", "golang.org/x/sys",
		},
		"semaphore":               semaphore,
		"semaphore/semaphoreecho": slices.Concat([]string{ours + "semaphore/semaphoreecho", ours + "internal/httpproblem"}, echo, semaphore),
		"semaphore/semaphoreasynq": append([]string{
			ours + "semaphore/semaphoreasynq", ours + "internal/asynqkeys", "github.com/hibiken/asynq", "github.com/google/uuid", "github.com/robfig/cron/v3", "github.com/spf13/cast",
			"golang.org/x/time", "google.golang.org/protobuf",
		}, semaphore...),
		"waitingroom": {
			ours + "waitingroom", ours + "waitingroom/draw", ours + "waitingroom/internal/pass", ours + "waitingroom/internal/sqlstore", ours + "waitingroom/internal/store", ours + "internal/drand", ours + "internal/stock", ours + "internal/sqldb", ours + "internal/batch", ours + "internal/dialects", ours + "internal/errsummary", ours + "internal/export", ours + "internal/failure", ours + "internal/input", ours + "internal/keyhash", ours + "internal/lazydeadline", ours + "internal/names", ours + "internal/periodic",
			"github.com/go-jose/go-jose/v4", "github.com/transparency-dev/merkle", "golang.org/x/sync",
			"github.com/jackc/pgx/v5", "github.com/jackc/pgpassfile", "github.com/jackc/pgservicefile", "golang.org/x/text", // to have Postgres plan look-ups each time
			"github.com/cloudflare/circl", "github.com/bwesterb/go-ristretto", "golang.org/x/crypto", "golang.org/x/sys", // signatures of drand
		},
	} {
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ours+name)
		out, err := list.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for dep := range strings.FieldsSeq(string(out)) {
			known := false
			for _, a := range allowed {
				known = known || dep == a || strings.HasPrefix(dep, a+"/") && !strings.HasPrefix(a, ours)
			}
			if !known {
				t.Errorf("%s imports %s", name, dep)
			}
		}
	}
}

// TestImportGraph: the packages form layers. A package depends on packages of lower layers, of its own folder, and on helpers under
// internal, also through others. With -v it prints the graph.
func TestImportGraph(t *testing.T) {
	const ours = "github.com/tidegate/tidegate/"
	layers := [][]string{
		{"redisclient", "migrations"},
		{"bans"},
		{"admission", "captcha", "semaphore", "waitingroom"},
		{"login", "orders"},
		{"cmd", "deploy", "examples"}, // and everything under internal that depends on the layers above
	}
	layerOf := func(folder string) int {
		return slices.IndexFunc(layers, func(layer []string) bool { return slices.Contains(layer, folder) })
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}};{{join .Imports ","}};{{join .Deps ","}}`, ours+"...")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSpace(line), ";")
		name := strings.TrimPrefix(fields[0], ours)
		var direct []string
		for dep := range strings.SplitSeq(fields[1], ",") {
			if dep, ok := strings.CutPrefix(dep, ours); ok {
				direct = append(direct, dep)
			}
		}
		t.Logf("%s → %s", name, strings.Join(direct, " "))
		folder, _, _ := strings.Cut(name, "/")
		if folder == "internal" {
			continue // its place follows from what it depends on
		}
		layer := layerOf(folder)
		if layer < 0 {
			t.Errorf("%s is in no layer: add its folder to this test", name)
		}
		for dep := range strings.SplitSeq(fields[2], ",") {
			dep, ok := strings.CutPrefix(dep, ours)
			if !ok {
				continue
			}
			if below, _, _ := strings.Cut(dep, "/"); below != folder && below != "internal" && layerOf(below) >= layer {
				t.Errorf("%s depends on %s, which is not in a lower layer", name, dep)
			}
		}
	}
}
