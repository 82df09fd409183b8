package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// A report is the machine-readable result of a run. Suites have the figures of each turn, tables are as printed.
type report struct {
	Date     time.Time         `json:"date"`
	Commit   string            `json:"commit"`
	Machine  machine           `json:"machine"`
	Versions map[string]string `json:"versions"`
	Suites   map[string]any    `json:"suites"`
	Tables   []printed         `json:"tables"`
}

type printed struct {
	Title string     `json:"title"`
	Head  []string   `json:"head"`
	Rows  [][]string `json:"rows"`
}

type machine struct {
	CPU    string `json:"cpu"`
	CPUs   int    `json:"cpus"`
	Memory string `json:"memory"`
	Kernel string `json:"kernel"`
}

// print prints a table and adds it to the report.
func (r *run) print(t *table, title string) {
	t.print(r.out, title)
	r.report.Tables = append(r.report.Tables, printed{title, t.rows[0], t.rows[1:]})
}

// keep adds the figures of a suite to the report.
func (r *run) keep(suite string, figures any) { r.report.Suites[suite] = figures }

// write writes the report, if a file was given.
func (r *run) write() error {
	if r.json == "" {
		return nil
	}
	text, err := json.MarshalIndent(r.report, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(r.json, append(text, '\n'), 0o644)
}

// peers are the modules whose versions are reported.
var peers = []string{
	"redis/go-redis/v9", "hibiken/asynq", "labstack/echo/v4", "jackc/pgx/v5", "ulule/limiter/v3",
	"go-redis/redis_rate/v10", "throttled/throttled/v2", "sethvargo/go-limiter", "x/time",
}

// preface prints what was measured, and on which machine and versions.
func (r *run) preface(ctx context.Context) {
	r.report = report{
		Date: time.Now().UTC().Truncate(time.Second), Commit: commit(ctx, r.root), Machine: thisMachine(),
		Suites: map[string]any{},
	}
	v := map[string]string{"Go": strings.TrimPrefix(runtime.Version(), "go"), "Redis": r.redis.version(ctx)}
	if out, err := exec.CommandContext(ctx, "postgres", "--version").Output(); err == nil {
		v["Postgres"] = strings.TrimSpace(string(out))
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if slices.ContainsFunc(peers, func(p string) bool { return strings.HasSuffix(m.Path, p) }) {
				v[m.Path] = m.Version
			}
		}
	}
	r.report.Versions = v
	m := r.report.Machine
	fmt.Fprintf(r.out, "%s, commit %s. %d × %s, %s, Linux %s; load, programs and servers on it.\n",
		r.report.Date.Format(time.DateTime), r.report.Commit, m.CPUs, m.CPU, m.Memory, m.Kernel)
	var versions []string
	for name, version := range v {
		versions = append(versions, name+" "+version)
	}
	slices.Sort(versions)
	fmt.Fprintf(r.out, "Versions: %s.\n", strings.Join(versions, ", "))
}

// commit returns the commit checked out in root, with + if files differ from it.
func commit(ctx context.Context, root string) string {
	git := func(args ...string) string {
		out, _ := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
		return string(bytes.TrimSpace(out))
	}
	id := git("rev-parse", "--short=12", "HEAD")
	if id == "" {
		return "unknown"
	}
	if git("status", "--porcelain", "--untracked-files=no") != "" {
		id += "+"
	}
	return id
}

func thisMachine() machine {
	field := func(file, name string) string {
		text, _ := os.ReadFile(file)
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
				return strings.TrimSpace(value)
			}
		}
		return "unknown"
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return machine{
		field("/proc/cpuinfo", "model name"), runtime.NumCPU(), field("/proc/meminfo", "MemTotal"),
		strings.TrimSpace(string(kernel)),
	}
}
