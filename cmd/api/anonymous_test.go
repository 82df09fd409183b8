package main

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// A sale without users: the key is all that an order belongs to, so it has to be one that nobody guesses, and guesses cost what orders do.
func TestOrdersWithoutAUser(t *testing.T) {
	p := startWith(t, map[string]string{"TRUSTED_PROXIES": "127.0.0.1"})
	definition := strings.Replace(servetest.Sale("ticket", 3), "{", `{"requires_user":false,`, 1)
	servetest.OpenSale(t, p.URL("internal"), "open-day", definition)
	address := 0
	elsewhere := func() string { address++; return fmt.Sprintf("203.0.113.%d", address) }
	order := func(from, key string, fields ...string) servetest.Answer {
		if key != "" {
			fields = append(fields, "Idempotency-Key", key)
		}
		return servetest.Call("POST", p.URL("public")+"/v1/sales/open-day/orders", `{"item":"ticket"}`, append(fields, "X-Forwarded-For", from)...)
	}

	for key, want := range map[string]string{
		"":                                       `"key_required"`,
		"7f3a":                                   `has 4 characters`,
		fmt.Sprint(time.Now().UnixMilli()):       `has 13 characters`,
		strings.Repeat("k", 21):                  `has 21 characters`,
		strings.Repeat("k", 256):                 `at most 255 characters`,
		"with a tab\tin more than 22 characters": `printable`,
	} {
		a := order(elsewhere(), key)
		if a.Status != http.StatusUnprocessableEntity || !strings.Contains(string(a.Body), want) {
			t.Errorf("%q: %v, want %s", key, a, want)
		}
		if strings.HasPrefix(want, "has") && !strings.Contains(string(a.Body), "22 to 255") {
			t.Errorf("%q: %v does not say what is right", key, a)
		}
	}
	// With a user the key only distinguishes repetitions from other orders.
	if a := order(elsewhere(), "7f3a", "X-User-ID", "ann"); a.Status != http.StatusAccepted {
		t.Errorf("a user's short key: %v", a)
	}
	shortest, longest := strings.Repeat("s", 22), strings.Repeat("l", 255)
	for _, key := range []string{shortest, longest} {
		if a := order(elsewhere(), key); a.Status != http.StatusAccepted {
			t.Errorf("%d characters: %v", len(key), a)
		}
	}

	// All units are sold, and the process has cached that. A guess costs as much as an order.
	servetest.Until(t, http.StatusConflict, func() servetest.Answer { return order(elsewhere(), rand.Text()) })
	guesser := elsewhere()
	for i := range 10 { // as many as the built-in rules give an address
		a := order(guesser, rand.Text())
		if a.Status != http.StatusConflict || !strings.HasPrefix(a.Header.Get("RateLimit"), fmt.Sprintf(`"orders";r=%d;`, 9-i)) {
			t.Fatalf("guess %d: %v, RateLimit %q", i, a, a.Header.Get("RateLimit"))
		}
	}
	for range 3 {
		if a := order(guesser, rand.Text()); a.Status != http.StatusTooManyRequests {
			t.Errorf("one guess too many: %v", a)
		}
		if a := order(elsewhere(), shortest); a.Status != http.StatusAccepted || a.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("its holder: %v", a)
		}
	}
	// With a user the refusal comes from local memory, as usual.
	if a := order(elsewhere(), "", "X-User-ID", "bob"); a.Status != http.StatusConflict || a.Header.Get("RateLimit") != "" {
		t.Errorf("%v, RateLimit %q", a, a.Header.Get("RateLimit"))
	}
}
