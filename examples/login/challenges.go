package main

import (
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"
)

// challengeAt returns the URL of a decision's challenge on this site, which fetches it from Tidegate.
func challengeAt(d decision) string {
	u, err := url.Parse(d.Challenge.URL)
	if err != nil {
		return ""
	}
	return "/captcha/challenge?" + u.RawQuery
}

// challenge serves challenges for logins only. Tidegate's internal listener makes challenges for any purpose, for this backend itself,
// and without a limit, so browsers must not reach it.
func (s *site) challenge(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("purpose") != "login" || q.Get("for") == "" {
		http.NotFound(w, r)
		return
	}
	if !s.handed.allow(peer(r), time.Now()) {
		w.Header().Set("Retry-After", "60")
		http.Error(w, "Too many challenges. Please try again in a minute.", http.StatusTooManyRequests)
		return
	}
	challenge, err := s.tidegate.challenge(r.Context(), q.Get("for"))
	switch {
	case errors.Is(err, errInvalid):
		http.Error(w, "This is no challenge of ours, or it is too old. Please send the form again.", http.StatusNotFound)
		return
	case err != nil:
		slog.ErrorContext(r.Context(), "no challenge", "error", err)
		http.Error(w, "There is no challenge at the moment.", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(challenge)
}

// perMinute is how many challenges an address gets in a minute, as on Tidegate's public listener.
const perMinute = 300

// A meter counts challenges per address and minute. The zero value is ready, and safe for concurrent use.
type meter struct {
	mu   sync.Mutex
	ends time.Time
	got  map[netip.Prefix]int // guarded by mu; by /64 for IPv6, because one customer owns all of it
}

func (m *meter) allow(ip netip.Addr, now time.Time) bool {
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	network, _ := ip.Prefix(bits) // the zero Prefix for an invalid address
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.After(m.ends) {
		m.got, m.ends = map[netip.Prefix]int{}, now.Add(time.Minute)
	}
	m.got[network]++
	return m.got[network] <= perMinute
}
