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
	r.redis, r.t = startRedis(t), t
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

// The suite of a waiting room sends its visitors, and all are answered.
func TestRoomSuite(t *testing.T) {
	text, rep := measure(t, "-only", "room")
	found := rows(text)
	for call, calls := range map[string]string{"join": "100", "read": "100", "join again": "10"} {
		if got := found[call]; len(got) != 9 || got[0] != calls || got[2] == "0" || call == "join" && got[8] == "0.0" {
			t.Errorf("%s: %v", call, got)
		}
	}
	for _, row := range []string{"bare Echo", "status of a place (200)"} {
		if got := found[row]; len(got) != 6 || got[0] == "0" || got[5] != "0" {
			t.Errorf("%s: %v", row, got)
		}
	}
	if got := found["1000"]; len(got) != 7 || got[0] == "0.00" || got[4] == "0.0" {
		t.Errorf("a large room: %v", got)
	}
	if len(rep.Suites) != 3 || len(rep.Tables) != 3 {
		t.Errorf("%+v", rep)
	}
}

// Every suite that starts programs runs once on real servers, so that it works when figures are needed.
func TestSuitesOfPrograms(t *testing.T) {
	text, rep := measure(t, "-only", "orders,lives,refusals,idle,overload,growth", "-tuned")
	t.Log(text)
	if rep.Commit == "" || rep.Machine.CPUs < 1 || rep.Versions["Redis"] == "" || len(rep.Suites) != 6 {
		t.Errorf("%+v", rep)
	}
	found := rows(text)
	for row, cells := range map[string]int{
		"admitted/s": 7, "committed/s until all is committed": 7, "p99 of 202": 7, "CPU µs an order: sum": 7, "load generator, µs an order": 7,
		"orders a task": 7, "orders a transaction": 7, "half load: p99 of 202": 7, "half load: 202 to commit, p99": 7,
		"orders reserve": 3, "asynq enqueue": 3, "asynq dequeue": 3,
		"payment": 6, "a whole life": 6,
		"bare Echo": 6, "denied (429)": 6, "sold out (409)": 6, "banned (403)": 6,
		"handmade": 10, "tidegate, embedded": 10, "tidegate, 2 APIs, 3 rooms": 10, "tidegate, 2 APIs, a sale of 3 rooms": 10,
		"tidegate, 2 APIs, 3 semaphores": 10, "2 APIs": 10, "20 rules": 10, "10 items": 10,
	} {
		if got := found[row]; len(got) != cells || cells == 7 && got[0] == "0" {
			t.Errorf("%s: %v", row, got)
		}
	}
	if n := strings.Count(text, "| tidegate |"); n < 8 {
		t.Errorf("%d rows of overload", n)
	}
}
