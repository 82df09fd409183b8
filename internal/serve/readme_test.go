package serve

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// TestReadmeCalls: the commands in README's section "Call it" work as described, with the settings of the committed .env.
func TestReadmeCalls(t *testing.T) {
	t.Parallel()
	demo := dotenv(t)
	vars := environment(testenv.Redis(t), databases.Postgres(t))
	env := func(name string) string {
		if slices.Contains([]string{"SECRET", "INTERNAL_TOKEN", "IDENTITY", "ALLOW_DEMO_SECRETS"}, name) {
			return demo[name]
		}
		return vars(name)
	}
	api, worker := startAPI(t, env), startWorker(t, env)
	for _, readyz := range []string{api.URL("internal") + "/readyz", worker.URL("worker") + "/readyz"} {
		servetest.Until(t, 200, func() servetest.Answer { return servetest.Call("GET", readyz, "") })
	}

	servetest.ReadmeCalls(t, "../../README.md", api.URL("public"), api.URL("internal"))
}

func dotenv(t *testing.T) map[string]string {
	t.Helper()
	content, err := os.ReadFile("../../.env")
	if err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{}
	for line := range strings.Lines(string(content)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			vars[name] = value
		}
	}
	return vars
}

// TestWaitingRoomCalls: the commands of docs/waiting-room.md set up a room that can be joined at once, whenever they are run.
func TestWaitingRoomCalls(t *testing.T) {
	t.Parallel()
	vars := environment(testenv.Redis(t), databases.Postgres(t))
	api := startAPI(t, vars)
	startWorker(t, vars)
	servetest.Until(t, 200, func() servetest.Answer { return servetest.Call("GET", api.URL("internal")+"/readyz", "") })

	variables := "internal=" + api.URL("internal") + " public=" + api.URL("public") + " auth='X-Request-Id: no-token'\n"
	out := servetest.Bash(t, variables+servetest.Commands(t, "../../docs/waiting-room.md", "### Set up"))
	var statuses []string
	for line := range strings.Lines(out) {
		if status, ok := strings.CutPrefix(line, "status "); ok {
			statuses = append(statuses, strings.TrimSpace(status))
		}
	}
	if want := []string{"201", "201", "200", "201"}; !slices.Equal(statuses, want) || !strings.Contains(out, `"state":"gathering"`) {
		t.Errorf("%v, want %v, for the sale, the room, the opening and the place:\n%s", statuses, want, out)
	}
}
