package main

import (
	"bytes"
	"cmp"
	"crypto/rand"
	_ "embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"time"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// A shop sells one item of one sale.
type shop struct {
	tidegate   *tidegate
	sale, item string
}

func newShop(t *tidegate, sale, item string) http.Handler {
	s := &shop{t, sale, item}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.home)
	mux.HandleFunc("POST /orders", s.order)
	mux.HandleFunc("GET /orders/{id}", s.show)
	mux.HandleFunc("POST /orders/{id}/cancel", s.cancel)
	mux.HandleFunc("POST /orders/{id}/pay", s.pay)
	// Forms of other sites must not place orders for their visitors.
	return http.NewCrossOriginProtection().Handler(mux)
}

// A view is the data of the page: what is on sale, or one order.
type view struct {
	Item    string
	Sale    *sale
	Orders  []order // of this buyer
	Key     string  // idempotency key of the form's order
	Order   *order
	Message string
	Wait    string // seconds
}

func (s *shop) home(w http.ResponseWriter, r *http.Request) {
	// Each page has its own key: a double click, or a resend of the form after a lost answer, is the same order.
	s.front(w, r, http.StatusOK, view{Key: rand.Text()})
}

// front shows what is on sale, and the buyer's orders.
func (s *shop) front(w http.ResponseWriter, r *http.Request, status int, v view) {
	b := buyerOf(w, r)
	v.Item = s.item
	if found, err := s.tidegate.sale(r.Context(), b, s.sale); err == nil {
		v.Sale = &found
	}
	v.Orders, _ = s.tidegate.orders(r.Context(), b, s.sale) // optional: the form works without them
	render(w, status, v)
}

func (s *shop) order(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	key := r.PostFormValue("key")
	o, err := s.tidegate.place(r.Context(), buyerOf(w, r), s.sale, s.item, key)
	if err != nil {
		s.fail(w, r, err, key) // same key: if the order exists after all, the next click returns it
		return
	}
	http.Redirect(w, r, "/orders/"+o.ID, http.StatusSeeOther)
}

func (s *shop) show(w http.ResponseWriter, r *http.Request) {
	o, err := s.tidegate.order(r.Context(), buyerOf(w, r), r.PathValue("id"), r.URL.Query().Has("wait"))
	if err != nil {
		s.fail(w, r, err, "")
		return
	}
	if o.Status == "accepted" { // a long poll: the answer comes when the status changes
		w.Header().Set("Refresh", "0; url=/orders/"+o.ID+"?wait")
	}
	render(w, http.StatusOK, view{Item: s.item, Order: &o})
}

func (s *shop) cancel(w http.ResponseWriter, r *http.Request) {
	if err := s.tidegate.cancel(r.Context(), buyerOf(w, r), r.PathValue("id")); err != nil {
		s.fail(w, r, err, "")
		return
	}
	http.Redirect(w, r, "/orders/"+r.PathValue("id"), http.StatusSeeOther)
}

// pay stands for your payment provider's webhook. Only the provider may report what was captured, and its reference.
func (s *shop) pay(w http.ResponseWriter, r *http.Request) {
	o, err := s.tidegate.order(r.Context(), buyerOf(w, r), r.PathValue("id"), false) // only the buyer's own orders can be paid
	if err != nil {
		s.fail(w, r, err, "")
		return
	}
	refund, err := s.tidegate.paid(r.Context(), o.ID, "demo-"+o.ID)
	switch {
	case err != nil:
		s.fail(w, r, err, "")
	case refund:
		render(w, http.StatusConflict, view{Item: s.item, Order: &o, Message: "The payment came too late. You get your money back."})
	default:
		http.Redirect(w, r, "/orders/"+o.ID, http.StatusSeeOther)
	}
}

// words are messages for buyers by the reason of a problem. For other reasons the problem's title is shown.
var words = map[string]string{
	"sold_out":        "Sold out. What somebody else gives back is on sale again, so another try may succeed.",
	"not_started":     "The sale has not started yet.",
	"paused":          "The sale is paused. It will go on.",
	"ended":           "The sale is over.",
	"quota_per_buyer": "You have as many as one buyer can have.",
	"rate_limited":    "That was too fast. Please wait a moment.",
	"unknown_order":   "You have no such order.",
	"order_final":     "This order cannot be cancelled any more.",
}

// fail shows why there is no order, or that the outcome is unknown.
func (s *shop) fail(w http.ResponseWriter, r *http.Request, err error, key string) {
	v, status := view{Key: cmp.Or(key, rand.Text())}, http.StatusServiceUnavailable
	if p := (*problem)(nil); errors.As(err, &p) && p.Status != http.StatusServiceUnavailable {
		status, v.Message, v.Wait = p.Status, cmp.Or(words[p.Reason], p.Title), p.RetryAfter
	} else {
		slog.ErrorContext(r.Context(), "not known", "error", err)
		v.Message, v.Wait = "We do not know yet. Please try again: you will not get two orders.", "1"
	}
	if v.Wait != "" {
		w.Header().Set("Retry-After", v.Wait)
	}
	s.front(w, r, status, v)
}

// buyerOf stands for your sessions: here a request without a cookie gets a new user name.
func buyerOf(w http.ResponseWriter, r *http.Request) buyer {
	c, err := r.Cookie("buyer")
	if err != nil {
		c = &http.Cookie{
			Name: "buyer", Value: rand.Text(), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode,
			MaxAge: int((24 * time.Hour).Seconds()),
		}
		http.SetCookie(w, c)
		r.AddCookie(c)
	}
	// Behind your own proxy use the last address that it has added to X-Forwarded-For: this one would be the proxy's, shared by all
	// buyers.
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	return buyer{user: c.Value, ip: at.Addr().Unmap().WithZone("")}
}

func render(w http.ResponseWriter, status int, v view) {
	var b bytes.Buffer
	if err := page.Execute(&b, v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors "+
		"'none'")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}
