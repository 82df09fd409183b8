package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// command runs a program, and returns what it prints.
func (h *hosts) command(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = h.env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(out.String()+errs.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

func (h *hosts) compose(ctx context.Context, args ...string) (string, error) {
	args = append(slices.Clone(h.files), args...)
	if exec.CommandContext(ctx, "docker", "compose", "version").Run() == nil {
		return h.command(ctx, "docker", append([]string{"compose"}, args...)...)
	}
	return h.command(ctx, "docker-compose", args...)
}

// container returns the id of a host's container, which changes when its disk is lost.
func (h *hosts) container(ctx context.Context, host string) (string, error) {
	if id, known := h.ids.Load(host); known {
		return id.(string), nil
	}
	id, err := h.command(ctx, "docker", "ps", "-aq", "--filter", "label=com.docker.compose.project="+h.project, "--filter", "label=com.docker.compose.service="+host)
	if err == nil && id == "" {
		err = fmt.Errorf("%s has no container", host)
	}
	if err == nil {
		h.ids.Store(host, id)
	}
	return id, err
}

// engine runs a command of docker on hosts.
func (h *hosts) engine(ctx context.Context, command string, names ...string) error {
	for _, host := range names {
		id, err := h.container(ctx, host)
		if err == nil {
			_, err = h.command(ctx, "docker", append(strings.Fields(command), id)...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// kill turns a host off at once. Its disk stays.
func (h *hosts) kill(ctx context.Context, host string) error { return h.stop(ctx, "kill", host) }

// pause freezes all processes of a host. Its connections stay.
func (h *hosts) pause(ctx context.Context, host string) error { return h.stop(ctx, "pause", host) }

func (h *hosts) stop(ctx context.Context, how, host string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down[host] {
		return errNothingThere
	}
	if err := h.engine(ctx, how, host); err != nil {
		return err
	}
	h.down[host] = true
	if how == "kill" && strings.HasPrefix(host, "api-") {
		h.ended = time.Now()
	}
	return nil
}

// start turns a killed host on, or resumes a paused one. What it is cut off from stays so.
func (h *hosts) start(ctx context.Context, host string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	id, err := h.container(ctx, host)
	if err != nil {
		return err
	}
	state, err := h.command(ctx, "docker", "inspect", "-f", "{{.State.Status}}", id)
	switch {
	case err != nil:
		return err
	case state == "paused":
		_, err = h.command(ctx, "docker", "unpause", id)
	case state != "running":
		_, err = h.command(ctx, "docker", "start", id)
		if err == nil && len(h.cuts[host]) > 0 {
			err = h.iptables(ctx, host, "-A", h.cuts[host])
		}
	}
	delete(h.down, host)
	return err
}

// restart ends the programs of hosts gracefully, and starts them again.
func (h *hosts) restart(ctx context.Context, names ...string) error {
	return h.engine(ctx, "restart -t 10", names...)
}

// up reports whether none of the hosts is off.
func (h *hosts) up(names ...string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !slices.ContainsFunc(names, func(host string) bool { return h.down[host] })
}

// loseDisk removes a host with its volumes, and starts it again with empty ones when wait returns.
func (h *hosts) loseDisk(ctx context.Context, host string, wait func()) error {
	if err := h.engine(ctx, "rm -f -v", host); err != nil {
		return err
	}
	h.ids.Delete(host)
	if _, err := h.command(ctx, "docker", "volume", "rm", h.project+"_"+host); err != nil {
		return err
	}
	wait()
	_, err := h.compose(ctx, "up", "-d", "--no-build", "--no-deps", host)
	return err
}

// close keeps the logs of all hosts, and removes everything.
func (h *hosts) close(ctx context.Context) {
	for _, host := range h.all("caddy", "api", "worker", "redis", "sentinel", "postgres") {
		id, err := h.container(ctx, host)
		if err != nil {
			continue // a host that the plan did not start
		}
		log, err := exec.CommandContext(ctx, "docker", "logs", "-t", id).CombinedOutput()
		if err == nil {
			err = os.WriteFile(filepath.Join(h.logs, host+".log"), log, 0o600)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) { // the folder of a round that held is gone
			h.t.Logf("log of %s: %v", host, err)
		}
	}
	removeHosts(ctx, h.project)
}

const hostsPrefix = "tidegate-chaos-"

// leftBehind returns the projects of earlier runs that were killed.
func leftBehind(ctx context.Context) (projects []string) {
	for _, kind := range [][]string{{"ps", "-a"}, {"network", "ls"}, {"volume", "ls"}} {
		out, _ := exec.CommandContext(ctx, "docker", append(kind, "--format", `{{.Label "com.docker.compose.project"}}`)...).Output() // without an engine, the start fails
		for project := range strings.FieldsSeq(string(out)) {
			pid, _, _ := strings.Cut(strings.TrimPrefix(project, hostsPrefix), "-")
			if _, err := os.Stat("/proc/" + pid); strings.HasPrefix(project, hostsPrefix) && err != nil && !slices.Contains(projects, project) {
				projects = append(projects, project)
			}
		}
	}
	return projects
}

// removeHosts removes the containers, volumes and networks of projects, also half started ones.
func removeHosts(ctx context.Context, projects ...string) {
	for _, project := range projects {
		for _, kind := range []struct{ list, remove []string }{
			{[]string{"ps", "-aq"}, []string{"rm", "-f", "-v"}},
			{[]string{"volume", "ls", "-q"}, []string{"volume", "rm", "-f"}},
			{[]string{"network", "ls", "-q"}, []string{"network", "rm"}},
		} {
			out, _ := exec.CommandContext(ctx, "docker", append(kind.list, "--filter", "label=com.docker.compose.project="+project)...).Output()
			if ids := strings.Fields(string(out)); len(ids) > 0 {
				_ = exec.CommandContext(ctx, "docker", append(kind.remove, ids...)...).Run() // the next run tries again
			}
		}
	}
}

// buildHosts builds the image of the programs, and returns its name. Statically linked programs need no base.
func buildHosts(t testing.TB) string {
	t.Helper()
	dir, image := t.TempDir(), fmt.Sprintf("%s%d", hostsPrefix, os.Getpid())
	run := func(env []string, name string, args ...string) {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	run(nil, filepath.Join(here, "../../deploy/baseimages/build"))
	run([]string{"CGO_ENABLED=0"}, "go", "-C", here, "build", "-o", dir, "../../cmd/api", "../../cmd/worker", "../../cmd/tidegate")
	file := "FROM scratch\nCOPY api worker tidegate /\nUSER 65532:65532\n"
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	run(nil, "docker", "build", "-q", "-t", image, ".")
	t.Cleanup(func() { _ = exec.Command("docker", "rmi", "-f", image).Run() })
	return image
}
