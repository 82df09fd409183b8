package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tidegate/tidegate/internal/serve"
)

// A rehearsal that cannot begin creates no sale. One that ends early names the sale it leaves open. Errors look like those of other
// commands.
func TestARehearsalThatEndsEarly(t *testing.T) {
	const (
		stillOpen = "sale r is still open; close it with: tidegate sales close r"
		unknown   = `{"title":"There is no such sale","reason":"unknown_sale"}`
		invalid   = `{"title":"The request is not valid","errors":[{"location":"body.items","message":"too many"}]}`
	)
	var (
		ctx, cancel = context.WithCancelCause(t.Context())
		mu          sync.Mutex
		asked       []string // guarded by mu
	)
	defer cancel(nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Method)
		created := slices.Contains(asked, http.MethodPut)
		mu.Unlock()
		say := func(status int, body string) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/secret"):
			say(http.StatusUnauthorized, "")
		case r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/wrong"):
			say(http.StatusUnprocessableEntity, invalid)
		case strings.HasSuffix(r.URL.Path, "/orders"):
			_, _ = io.Copy(io.Discard, r.Body)
			cancel(serve.Interrupted{Signal: syscall.SIGINT})
			<-r.Context().Done()
		case r.Method == http.MethodGet && !created:
			say(http.StatusNotFound, unknown)
		default:
			say(http.StatusOK, `{"sale":"r","state":"open","items":[{"item":"item-1","stock":5,"free":5}]}`)
		}
	}))
	defer server.Close()
	for _, tt := range []struct {
		name, args string
		want       []string
		status     int
		creates    bool
	}{
		{"a plan that is none", "--sale r --stock 5 --buyers 5", []string{"--buyers, --rate, --duration must be two of the three, got 1"}, 2, false},
		{"a file that cannot be", "--sale r --stock 5 --buyers 5 --rate 5 --history " + filepath.Join(t.TempDir(), "none", "h"), []string{"--history must be a writable file: open "}, 2, false},
		{"nobody there", "--sale r --stock 5 --buyers 5 --rate 5 --target " + server.URL + ",http://127.0.0.1:1", []string{"asking --target http://127.0.0.1:1: ", "connection refused"}, 2, false},
		{"nobody inside", "--sale r --stock 5 --buyers 5 --rate 5 --internal http://127.0.0.1:1", []string{"is the server running? --internal"}, 2, false},
		{"no token", "--sale secret --stock 5 --buyers 5 --rate 5", []string{"/v1/sales/secret: 401 Unauthorized; set TIDEGATE_TOKEN or --token"}, 2, false},
		{"no sale", "--sale r --buyers 5 --rate 5", []string{"/v1/sales/r: 404 There is no such sale"}, 2, false},
		{"refused", "--sale wrong --stock 5 --buyers 5 --rate 5", []string{"/v1/sales/wrong: 422 The request is not valid\nbody.items: too many"}, 2, true},
		{"told to stop", "--sale r --stock 5 --buyers 5 --rate 5", []string{"interrupted\n" + stillOpen}, 130, true},
	} {
		asked = nil
		args := strings.Fields(tt.args)
		if !strings.Contains(tt.args, "--target") {
			args = append(args, "--target", server.URL)
		}
		var out output
		err := run(ctx, append([]string{"rehearse"}, args...), at(server.URL), &out, &out)
		if statusOf(err) != tt.status || slices.Contains(asked, http.MethodPut) != tt.creates {
			t.Errorf("%s: status %d after %v", tt.name, statusOf(err), asked)
		}
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no %q in: %v", tt.name, want, err)
			}
		}
		if err != nil && strings.Contains(err.Error(), "{") {
			t.Errorf("%s: not for people: %v", tt.name, err)
		}
		if tt.status == 2 && err != nil && strings.Contains(err.Error(), stillOpen) {
			t.Errorf("%s: nothing was opened: %v", tt.name, err)
		}
	}
}

// Flags that the other kind of rehearsal has are refused, not ignored, and a crowd that cannot buy everything is.
func TestFlagsOfARehearsal(t *testing.T) {
	for args, want := range map[string]string{
		"--sale s --room r --stock 5 --buyers 50 --rate 5":     "--rate must be left out with --room, which takes --sale, --stock, --buyers, --seed",
		"--sale s --room r --stock 5 --buyers 50 --hold 1s":    "--hold must be left out with --room",
		"--sale s --stock 5 --buyers 5 --rate 5 --silent 0.1":  "--silent must be given with --room NAME, or left out",
		"--sale s --stock 5 --buyers 5 --rate 5 --gather 1s":   "--gather must be given with --room NAME",
		"--sale s --room r --buyers 50":                        "--stock must be at least 1 with --room, which creates the sale, got 0",
		"--sale s --room r --stock 40":                         "--buyers must be enough to buy all 40 units: about 96 with --silent 0.5, got 0",
		"--sale s --room r --stock 40 --buyers 50 --snipers 7": "--snipers must be a share from 0 to 1, got 7",
	} {
		if _, err := call(t, nothing, append([]string{"rehearse", "--embedded"}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
