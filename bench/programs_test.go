package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// measure runs suites that start programs, as briefly as can be, and returns what they print and report.
func measure(t *testing.T, args ...string) (text string, rep report) {
	t.Helper()
	var out bytes.Buffer
	file := filepath.Join(t.TempDir(), "report.json")
	r, err := parse(append([]string{"-size", "brief", "-json", file}, args...), &out)
	if err != nil {
		t.Fatal(err)
	}
	r.redis, r.t = server, t
	if err := r.all(t.Context()); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(written, &rep); err != nil {
		t.Fatal(err)
	}
	return out.String(), rep
}

func TestOrders(t *testing.T) {
	text, rep := measure(t, "-only", "orders", "-tuned")
	t.Log(text)
	if rep.Commit == "" || rep.Machine.CPUs < 1 || rep.Versions["github.com/hibiken/asynq"] == "" && rep.Versions["Redis"] == "" {
		t.Errorf("%+v", rep)
	}
	found := rows(text)
	for _, row := range []string{
		"admitted/s", "committed/s until all is committed", "p99 of 202", "CPU µs an order: sum", "half load: p99 of 202", "half load: 202 to commit, p99",
		"load generator, µs an order", "orders a task", "orders a transaction",
	} {
		if cells := found[row]; len(cells) != 5 || strings.HasPrefix(cells[0], "0 ") || cells[0] == "0" || cells[1] == "0" {
			t.Errorf("%s: %v", row, cells)
		}
	}
	for _, script := range []string{"orders reserve", "asynq enqueue", "asynq dequeue"} {
		if len(found[script]) != 3 {
			t.Errorf("Redis by script: there is no %s", script)
		}
	}
}
