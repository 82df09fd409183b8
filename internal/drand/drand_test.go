package drand_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/drand"
)

// Rounds that quicknet has signed.
var signed = map[int64]string{
	1000:    "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39",
	657_413: "b713718a38ae728dfd477991af2822e08d2f305e47718cef9f7848ce4050e7be41076862b98fad56e91a6b85b89cd97b",
}

func TestVerify(t *testing.T) {
	for round, signature := range signed {
		if err := drand.Quicknet.Verify(round, signature); err != nil {
			t.Error(err)
		}
		for what, wrong := range map[string]string{
			"another round's": signed[1000+657_413-round], "cut": signature[:94], "longer": signature + "00", "empty": "", "not hexadecimal": "x" + signature[1:],
			"changed": strings.Replace(signature, "39", "38", 1), "no point": strings.Repeat("0", 96), "infinity": "c" + strings.Repeat("0", 95),
		} {
			if err := drand.Quicknet.Verify(round, wrong); wrong != signature && err == nil {
				t.Errorf("round %d: a signature that is %s is valid", round, what)
			}
		}
	}
}

func TestRoundAt(t *testing.T) {
	n := &drand.Quicknet
	for after, want := range map[time.Duration]int64{-time.Hour: 1, 0: 1, 1: 2, 3 * time.Second: 2, 3*time.Second + 1: 3, 2997 * time.Second: 1000} {
		if got := n.RoundAt(n.Genesis.Add(after)); got != want {
			t.Errorf("%v after the genesis: round %d, want %d", after, got, want)
		}
	}
	if got := n.TimeOf(1000).Sub(n.Genesis); got != 2997*time.Second {
		t.Errorf("round 1000 is signed %v after the genesis", got)
	}
}

// Relays that do not answer, or lie, are passed over.
func TestFetch(t *testing.T) {
	answer := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/"+drand.Quicknet.Chain+"/public/1000" {
				status = http.StatusNotFound
			}
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	round := func(signature string) string {
		return fmt.Sprintf(`{"round":1000,"randomness":"00","signature":%q}`, signature)
	}
	gone := answer(200, "")
	relays := []string{
		strings.Replace(gone, "http:", "ftp:", 1), answer(425, round(signed[1000])), answer(200, "<html>"), answer(200, round(signed[657_413])),
		answer(200, strings.Repeat(" ", 1<<20)+round(signed[1000])), answer(200, round(signed[1000])) + "/",
	}
	got, err := drand.Quicknet.Fetch(t.Context(), relays, 1000)
	if err != nil || got != signed[1000] {
		t.Error(got, err)
	}
	for _, wrong := range [][]string{nil, relays[:5]} {
		if got, err := drand.Quicknet.Fetch(t.Context(), wrong, 1000); err == nil {
			t.Errorf("%d relays: %q", len(wrong), got)
		}
	}
}
