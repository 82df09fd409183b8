package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestCompletion(t *testing.T) {
	if out, err := call(t, nothing, "--help"); err != nil || !strings.Contains(out, "completion ") {
		t.Errorf("the command is not shown: %v\n%s", err, out)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		script, err := call(t, nothing, "completion", shell)
		if err != nil || script == "" {
			t.Errorf("%s: %v", shell, err)
		}
		if shell != "bash" {
			continue
		}
		file := filepath.Join(t.TempDir(), "tidegate.bash")
		if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "bash", "-n", file).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// Names come from the server; while it is unavailable there are none, and no error is printed.
func TestNamesAreCompleted(t *testing.T) {
	env, _ := internalFake(t, map[string]string{
		"GET /v1/sales?limit=1000":       twoSales,
		"GET /v1/semaphores?limit=1000":  `{"items":[{"name":"report"},{"name":"render"}],"next_cursor":null}`,
		"GET /v1/rooms?limit=1000":       `{"items":[{"room":"shoes"},{"room":"shirts"}],"next_cursor":null}`,
		"GET /v1/semaphores/report":      `{"holders":[{"permit_id":"p.1"},{"permit_id":"p.2"}]}`,
		"GET /v1/orders/dead?limit=1000": `{"items":[{"order_id":"01"}],"next_cursor":null}`,
		"GET /v1/bans?limit=1000": `{"items":[{"kind":"user","value":"ann"},{"kind":"ip","value":"192.0.2.1"},{"kind":"network","value":"2001:db8::/48"},
			{"kind":"device","value":"d-1"},{"kind":"device","value":"--internal=http://evil"},{"kind":"device","value":"d;reboot"},{"kind":"device","value":"$(reboot)"},
			{"kind":"device","value":"a b"},{"kind":"device","value":"~root"},{"kind":"device","value":"=ls"}],"next_cursor":null}`,
	})
	const noFiles, noSpace = ":4\n", ":6\n"
	for args, want := range map[string]string{
		"sales show ":                "flush\nflash\n" + noFiles,
		"sales close fla":            "flash\n" + noFiles,
		"sales stock flash ":         "shoe=+\nhat=+\n" + noSpace,
		"sales open flash ":          noFiles,
		"verify fl":                  "flush\nflash\n" + noFiles,
		"semaphores show re":         "report\nrender\n" + noFiles,
		"semaphores release report ": "p.1\np.2\n" + noFiles,
		"rooms hold sho":             "shoes\n" + noFiles,
		"rooms explain sh":           "shoes\nshirts\n" + noFiles,
		"rooms put x --mode ":        "fifo\ndraw\n" + noFiles,
		"orders replay ":             "01\n" + noFiles,
		"orders cancel ":             noFiles,
		"bans add ":                  "user\nip\nnetwork\ndevice\n" + noFiles,
		"bans lift ip ":              "192.0.2.1\n" + noFiles,
		"bans lift network 2001:":    "2001:db8::/48\n" + noFiles,
		"bans lift device ":          "d-1\n" + noFiles,
		"bans lift user ":            noFiles, // any number of people
		"orders list fl":             "flush\nflash\n" + noFiles,
		"sales list ":                noFiles,

		"orders replay --all --sale fla": "flash\n" + noFiles,
	} {
		words := append([]string{"__complete"}, strings.Split(args, " ")...)
		if out, err := call(t, env, words...); err != nil || out != want {
			t.Errorf("%q: %v %q", args, err, out)
		}
		if strings.HasPrefix(args, "bans add") || strings.Contains(args, "--mode") {
			continue
		}
		var stdout, stderr output
		err := run(t.Context(), words, at("http://127.0.0.1:1"), &stdout, &stderr)
		if said := strings.TrimPrefix(stderr.String(), "Completion ended with directive: ShellCompDirectiveNoFileComp\n"); err != nil || stdout.String() != noFiles || said != "" {
			t.Errorf("%q without a server: %v %q %q", args, err, &stdout, said)
		}
	}
}
