//go:build docker

package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

// installation is docker-compose.yml as a user starts it, with the committed .env, on free ports.
type installation struct {
	env              []string
	public, internal string
	prometheus       string
	grafana          string
}

const token = "demo-only-operator-token"

func install(t *testing.T) *installation {
	t.Helper()
	ports := [4]int{testenv.FreePort(), testenv.FreePort(), testenv.FreePort(), testenv.FreePort()}
	at := func(i int) string { return fmt.Sprintf("http://127.0.0.1:%d", ports[i]) }
	return &installation{
		env: append(os.Environ(), fmt.Sprintf("COMPOSE_PROJECT_NAME=tidegate-test-%d", os.Getpid()), "SUBNET=10.83.23.0/24",
			fmt.Sprintf("PUBLIC_PORT=%d", ports[0]), fmt.Sprintf("INTERNAL_PORT=%d", ports[1]),
			fmt.Sprintf("PROMETHEUS_PORT=%d", ports[2]), fmt.Sprintf("GRAFANA_PORT=%d", ports[3])),
		public: at(0), internal: at(1), prometheus: at(2), grafana: at(3),
	}
}

// run runs a program in the root of the repository and returns what it printed.
func (in *installation) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = "..", in.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out.String())
	}
	return strings.TrimSpace(out.String())
}

func (in *installation) compose(t *testing.T, args ...string) string {
	t.Helper()
	if exec.Command("docker", "compose", "version").Run() == nil {
		return in.run(t, "docker", append([]string{"compose"}, args...)...)
	}
	return in.run(t, "docker-compose", args...)
}

// inspect returns what the engine knows about a service's container.
func (in *installation) inspect(t *testing.T, service string) (c struct {
	ID    string
	State struct {
		Pid    int
		Health struct{ Status string }
	}
	Config     struct{ User string }
	HostConfig struct {
		ReadonlyRootfs bool
		CapDrop        []string
		SecurityOpt    []string
		PortBindings   map[string][]struct{ HostIP, HostPort string }
	}
},
) {
	t.Helper()
	id := in.compose(t, "ps", "-q", service)
	out := in.run(t, "docker", "inspect", "--format", "{{json .}}", id)
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// await waits until all programs report that they are ready.
func (in *installation) await(t *testing.T) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(time.Second) {
		var waiting []string
		for _, service := range programs {
			if status := in.inspect(t, service).State.Health.Status; status != "healthy" {
				waiting = append(waiting, service+" is "+status)
			}
		}
		if len(waiting) == 0 {
			return
		}
		if time.Since(start) > 3*time.Minute {
			t.Fatalf("after 3 minutes %s:\n%s", strings.Join(waiting, ", "), in.compose(t, "logs", "--tail=30"))
		}
	}
}

var programs = []string{"redis", "postgres", "api", "worker"}

// TestCompose starts docker-compose.yml in the machine's Docker engine, uses it as README says, kills each container during a sale, and
// starts it again with its data.
func TestCompose(t *testing.T) {
	in := install(t)
	t.Log("images:\n" + in.run(t, "deploy/baseimages/build"))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(in.compose(t, "logs", "--tail=50"))
		}
		in.compose(t, "--profile", "observe", "down", "-v", "--rmi", "local")
	})
	in.compose(t, "up", "--build", "-d")
	in.await(t)

	t.Run("privileges", in.privileges)
	t.Run("README", func(t *testing.T) { servetest.ReadmeCalls(t, "../README.md", in.public, in.internal) })
	t.Run("rehearsal with kills", in.rehearsal)
	t.Run("down and up", in.restart)
	t.Run("observe", in.observe)
	for _, service := range []string{"api", "worker"} {
		// The engine makes the mount point of the rules.
		if changed := in.run(t, "docker", "diff", in.inspect(t, service).ID); changed != "A /rules" {
			t.Errorf("%s has written files into its image:\n%s", service, changed)
		}
	}
}

// The programs run without rights and without a writable file, and only the API is reachable, from this machine alone.
func (in *installation) privileges(t *testing.T) {
	for _, service := range programs {
		c := in.inspect(t, service)
		ours := service == "api" || service == "worker"
		if ours && (c.Config.User != "65532:65532" || !c.HostConfig.ReadonlyRootfs || !slices.Equal(c.HostConfig.CapDrop, []string{"ALL"}) ||
			!slices.Contains(c.HostConfig.SecurityOpt, "no-new-privileges:true")) {
			t.Errorf("%s: %+v", service, c)
		}
		published := 0
		for port, bindings := range c.HostConfig.PortBindings {
			for _, b := range bindings {
				if published++; b.HostIP != "127.0.0.1" {
					t.Errorf("%s publishes %s on %q, want 127.0.0.1", service, port, b.HostIP)
				}
			}
		}
		if want := map[string]int{"api": 2}[service]; published != want {
			t.Errorf("%s publishes %d ports, want %d", service, published, want)
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.State.Pid))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(status)) {
			field := strings.Fields(line)
			switch {
			case field[0] == "Uid:" && field[1] == "0":
				t.Errorf("%s runs as root", service)
			case ours && field[0] == "CapEff:" && strings.Trim(field[1], "0") != "":
				t.Errorf("%s has capabilities %s", service, field[1])
			case ours && field[0] == "NoNewPrivs:" && field[1] != "1":
				t.Errorf("%s can gain privileges", service)
			}
		}
		t.Logf("%-9s user %q, read-only %v, %d ports", service, c.Config.User, c.HostConfig.ReadonlyRootfs, published)
	}
}

// A crowd orders while each container's process is killed once; the engine starts it again. The verdict holds.
func (in *installation) rehearsal(t *testing.T) {
	program := filepath.Join(t.TempDir(), "tidegate")
	in.run(t, "go", "build", "-o", program, "./cmd/tidegate")
	crowd := exec.Command(program, "rehearse", "--target", in.public, "--internal", in.internal, "--token", token, "--sale", "compose",
		"--stock", "1500", "--buyers", "4000", "--duration", "60s", "--request-timeout", "5s", "--attempts", "20", "--retry-wait", "500ms")
	var out bytes.Buffer
	crowd.Stdout, crowd.Stderr = &out, &out
	if err := crowd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, service := range []string{"worker", "api", "redis", "postgres"} {
		time.Sleep(5 * time.Second) // the crowd orders meanwhile
		pid := in.inspect(t, service).State.Pid
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatalf("killing %s: %v", service, err)
		}
		in.await(t)
		if now := in.inspect(t, service).State.Pid; now == pid || now == 0 {
			t.Errorf("%s has process %d after it was killed, and had %d", service, now, pid)
		}
		t.Logf("killed %s: the engine started it again", service)
	}
	err := crowd.Wait()
	t.Log(out.String())
	if err != nil {
		t.Errorf("the rehearsal: %v", err)
	}
}

// Orders and sales are the same after the containers were removed and made anew.
func (in *installation) restart(t *testing.T) {
	orders := func() string {
		a := servetest.Call("GET", in.internal+"/v1/sales/compose/orders?limit=1000", "", "Authorization", "Bearer "+token)
		if a.Status != 200 || !bytes.Contains(a.Body, []byte(`"order_id"`)) {
			t.Fatalf("orders: %v", a)
		}
		return string(a.Body)
	}
	before := orders()
	in.compose(t, "down")
	in.compose(t, "up", "-d")
	in.await(t)
	if after := orders(); after != before {
		t.Errorf("orders before down:\n%.500s\nafter up:\n%.500s", before, after)
	}
	if a := servetest.Call("GET", in.internal+"/v1/sales/compose/verify", "", "Authorization", "Bearer "+token); !bytes.Contains(a.Body, []byte(`"ok":true`)) {
		t.Errorf("verify: %v", a)
	}
}

// Prometheus scrapes both programs and has loaded the alerts. Grafana finds its dashboard, where its image can be had.
func (in *installation) observe(t *testing.T) {
	services := []string{"prometheus"}
	if exec.Command("docker", "image", "inspect", grafanaImage(t)).Run() == nil {
		services = append(services, "grafana")
	} else {
		t.Log("Grafana was not started: no image of it can be had here")
	}
	in.compose(t, append([]string{"--profile", "observe", "up", "-d", "--no-deps"}, services...)...)
	for _, want := range []struct {
		path  string
		holds []string
	}{
		{"/api/v1/query?query=sum(up)", []string{`"2"`}},
		{"/api/v1/rules?type=alert", []string{`"name":"TidegateNoAPI"`, `"name":"TidegateRecovering"`}},
		{"/api/v1/query?query=max(tidegate_outbox_orders)", []string{`"value"`}},
	} {
		eventually(t, in.prometheus+want.path, want.holds)
	}
	if len(services) == 2 {
		eventually(t, in.grafana+"/api/search?query=Tidegate", []string{`"title":"Tidegate`})
	}
}

func grafanaImage(t *testing.T) string {
	var file struct {
		Services map[string]struct{ Image string }
	}
	readCompose(t, &file)
	return file.Services["grafana"].Image
}

// eventually waits until a document contains all of the words.
func eventually(t *testing.T, url string, words []string) {
	t.Helper()
	var body []byte
	for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(time.Second) {
		resp, err := http.Get(url)
		if err != nil {
			body = []byte(err.Error())
			continue
		}
		body, _ = io.ReadAll(resp.Body)
		resp.Body.Close()
		if !slices.ContainsFunc(words, func(w string) bool { return !bytes.Contains(body, []byte(w)) }) {
			return
		}
	}
	t.Errorf("%s has no %v:\n%.1000s", url, words, body)
}
