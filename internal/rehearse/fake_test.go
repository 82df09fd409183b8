package rehearse

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/judge"
	"github.com/tidegate/tidegate/orders"
)

// defect is a fault of a fake server.
type defect string

const (
	sound        defect = ""
	losesOrder   defect = "loses an order"
	inventsOrder defect = "has an order that nobody asked for"
	oversells    defect = "sells more than the stock"
	breaksQuota  defect = "does not look at the quota"
	sellsTwice   defect = "sells a unit twice"
	forgetsKey   defect = "gives another order for the same key"
	leavesTrace  defect = "refuses and leaves the order behind"
	goesBack     defect = "forgets that an order was confirmed"
	sellsLate    defect = "accepts after the end"
	neverEnds    defect = "never confirms an order"
	leaksUnit    defect = "loses a unit"
	liesSoldOut  defect = "says sold out while units are free"
	lateNo       defect = "refuses the repeat of a lost answer, and keeps the order"
	doubtsItself defect = "finds a queue that is not empty"
	dropsAnswers defect = "cuts every third connection after the work is done"
	stalls       defect = "answers no first attempt"
	busy         defect = "is at capacity on each first attempt"
	stumbles     defect = "answers what an operator asks for with 503 at first"

	chargesTwice  defect = "takes the money of a second payment"
	losesCapture  defect = "forgets a payment that it answered"
	refundsLive   defect = "refunds a payment that came in time"
	forgetsRef    defect = "answers the repeat of a payment as a new one"
	turnsAway     defect = "refuses a payment that came late"
	returnsTwice  defect = "lets an order expire that was cancelled"
	expiresPaid   defect = "lets an order expire that was paid"
	neverExpires  defect = "never lets an order expire"
	hidesChange   defect = "has no feed of cancels"
	keepsReturned defect = "does not sell what was returned"
	keepsQuota    defect = "does not give the quota back"
	giftsQuota    defect = "gives the quota back with a payment"
	marksForever  defect = "gives a second order to a buyer without a key whose first one lives"
)

// fakeShop is an in-memory implementation of the HTTP API, public and internal on one listener.
type fakeShop struct {
	*httptest.Server
	wrong defect

	mu       sync.Mutex
	stock    int
	quota    int
	hold     time.Duration
	next     int   // units handed out that were never returned
	back     []int // returned units
	starts   time.Time
	orders   []*judge.Order
	keys     map[string]*judge.Order
	tried    map[string]int // attempts by key
	events   []judge.Event
	payments map[string]*judge.Event // by reference
	kept     map[string]int          // quota by buyer
	posts    int
	once     bool
}

func newShop(t *testing.T, wrong defect) *fakeShop {
	s := &fakeShop{wrong: wrong, keys: map[string]*judge.Order{}, tried: map[string]int{}, payments: map[string]*judge.Event{}, kept: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /v1/sales/{sale}", s.stumbling(s.put))
	mux.HandleFunc("POST /v1/sales/{sale}/open", s.stumbling(func(w http.ResponseWriter, _ *http.Request) { say(w, 200, map[string]any{}) }))
	mux.HandleFunc("GET /v1/sales/{sale}", s.stumbling(s.get))
	mux.HandleFunc("GET /v1/sales", s.stumbling(s.sales))
	mux.HandleFunc("POST /v1/sales/{sale}/orders", s.order)
	mux.HandleFunc("GET /v1/orders/{id}", s.status)
	mux.HandleFunc("POST /v1/orders/{id}/cancel", s.cancel)
	mux.HandleFunc("POST /v1/orders/{id}/payment", s.payment)
	mux.HandleFunc("GET /v1/order-events", s.stumbling(s.feed))
	mux.HandleFunc("GET /v1/sales/{sale}/orders", s.stumbling(s.list))
	mux.HandleFunc("GET /v1/sales/{sale}/verify", s.stumbling(s.verify))
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// stumbling wraps a handler so that a shop with the defect stumbles only calls it on the second try.
func (s *fakeShop) stumbling(next http.HandlerFunc) http.HandlerFunc {
	var first sync.Once
	return func(w http.ResponseWriter, r *http.Request) {
		serve := next
		if s.wrong == stumbles {
			first.Do(func() { serve = func(w http.ResponseWriter, _ *http.Request) { refuse(w, 503, "unavailable") } })
		}
		serve(w, r)
	}
}

func say(w http.ResponseWriter, code int, v any) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, code int, reason string) {
	say(w, code, map[string]any{"type": "/problems/x", "status": code, "title": reason, "reason": reason})
}

func (s *fakeShop) put(w http.ResponseWriter, r *http.Request) {
	var in struct {
		StartsAt time.Time `json:"starts_at"`
		HoldMs   int64     `json:"hold_ms"`
		Items    []struct {
			Stock int `json:"stock"`
			Quota int `json:"quota_per_buyer"`
		} `json:"items"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.Header.Get("Authorization") != "Bearer secret" {
		refuse(w, 401, "unauthenticated")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stock, s.quota, s.starts, s.hold = in.Items[0].Stock, in.Items[0].Quota, in.StartsAt, time.Duration(in.HoldMs)*time.Millisecond
	say(w, 201, map[string]any{})
}

func (s *fakeShop) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.starts.IsZero() {
		refuse(w, 404, "unknown_sale")
		return
	}
	// Five seconds ahead, which is how long the judge lets an order be overdue.
	say(w, 200, judge.Sale{
		Sale: r.PathValue("sale"), State: "open", StartsAt: s.starts, EndsAt: s.starts.Add(time.Hour),
		Now: time.Now().Add(5 * time.Second), Items: []judge.Item{{Item: "item-1", Stock: s.stock, Free: s.free()}},
	})
}

func (s *fakeShop) sales(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	say(w, 200, map[string]any{"next_cursor": nil, "items": []any{
		map[string]any{"sale": "another", "items": []any{}},
		map[string]any{"sale": "demo", "items": []any{map[string]any{"item": "item-1", "quota_per_buyer": s.quota}}},
	}})
}

// first returns true once per shop.
func (s *fakeShop) first() bool {
	was := s.once
	s.once = true
	return !was
}

func (s *fakeShop) order(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Item     string `json:"item"`
		Quantity int    `json:"quantity"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		refuse(w, 422, "invalid")
		return
	}
	buyer, key := r.Header.Get("X-User-ID"), r.Header.Get("Idempotency-Key")
	if key == "" {
		key = "of " + buyer
	}
	s.mu.Lock()
	s.posts++
	posts := s.posts
	s.tried[key]++
	attempt := s.tried[key]
	s.mu.Unlock()
	if s.wrong == busy && attempt == 1 {
		refuse(w, 503, "at_capacity")
		return
	}
	code, o, reason := s.decide(buyer, key, in.Quantity, attempt)
	switch {
	case s.wrong == stalls && attempt == 1:
		<-r.Context().Done()
	case s.wrong == dropsAnswers && posts%3 == 0, s.wrong == lateNo && attempt == 1:
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			conn.Close()
		}
	case code == 202:
		w.Header().Set("Location", "/v1/orders/"+o.OrderID)
		say(w, 202, o)
	default:
		refuse(w, code, reason)
	}
}

func (s *fakeShop) decide(buyer, key string, quantity, attempt int) (int, judge.Order, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	if o := s.keys[key]; o != nil && s.wrong != forgetsKey && (s.wrong != marksForever || key != "of "+buyer) {
		if s.wrong == lateNo && attempt == 2 && s.first() {
			return 429, judge.Order{}, "rate_limited"
		}
		return 202, *o, ""
	}
	held := s.kept[buyer]
	for _, o := range s.orders {
		if o.User == buyer && o.Holds() && (s.wrong != giftsQuota || o.Status != orders.StatusPaid) {
			held += o.Quantity
		}
	}
	switch free := s.free(); {
	case free == 0 && s.wrong != oversells, s.wrong == liesSoldOut && s.next == 50:
		return 409, judge.Order{}, "sold_out"
	case quantity > free && s.wrong != oversells:
		return 409, judge.Order{}, "not_enough"
	case held+quantity > s.quota && !slices.Contains([]defect{breaksQuota, forgetsKey, marksForever}, s.wrong):
		return 409, judge.Order{}, "quota_per_buyer"
	}
	o := &judge.Order{
		OrderID: fmt.Sprintf("order-%05d", len(s.orders)+1), Status: orders.StatusAccepted, Item: "item-1", User: buyer, Quantity: quantity,
		AcceptedAt: s.starts.Add(2 * time.Minute),
	}
	for range quantity {
		if n := len(s.back); n > 0 {
			o.Units, s.back = append(o.Units, s.back[0]), s.back[1:]
			continue
		}
		s.next++
		o.Units = append(o.Units, s.next)
	}
	switch {
	case s.wrong == sellsTwice && len(s.orders) == 1:
		o.Units = s.orders[0].Units
	case s.wrong == sellsLate && s.first():
		o.AcceptedAt = s.starts.Add(2 * time.Hour)
	case s.wrong == leaksUnit && s.first():
		s.next++
	}
	s.orders = append(s.orders, o)
	if s.wrong == leavesTrace && s.first() {
		return 429, judge.Order{}, "rate_limited"
	}
	s.keys[key] = o
	return 202, *o, ""
}

func (s *fakeShop) status(w http.ResponseWriter, r *http.Request) {
	if o := s.find(r.PathValue("id"), r.Header.Get("X-User-ID")); o != nil {
		say(w, 200, o)
	} else {
		refuse(w, 404, "unknown_order")
	}
}

// list uses pages of two thirds of a usual crowd, so that cursors are used.
func (s *fakeShop) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	all := []judge.Order{}
	for _, o := range s.orders {
		s.commit(o) // orders with lost responses are confirmed without being read
		all = append(all, *o)
	}
	switch s.wrong {
	case losesOrder:
		all = all[1:]
	case inventsOrder:
		o := judge.Order{OrderID: "order-x", Status: "cancelled", Item: "item-1", User: "somebody", Quantity: 1, AcceptedAt: all[0].AcceptedAt}
		all = append(all, o)
		if s.first() {
			s.tell(&o, orders.StatusConfirmed)
			s.tell(&o, orders.StatusCancelled)
		}
	case goesBack:
		all[0].Status = "rejected"
	}
	slices.SortFunc(all, func(a, b judge.Order) int { return cmp.Compare(a.OrderID, b.OrderID) })
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	to, next := min(from+30, len(all)), ""
	if to < len(all) {
		next = strconv.Itoa(to)
	}
	say(w, 200, map[string]any{"items": all[from:to], "next_cursor": next})
}

func (s *fakeShop) verify(w http.ResponseWriter, _ *http.Request) {
	ok := s.wrong != doubtsItself
	say(w, 200, judge.Verification{OK: ok, Checks: []orders.Check{
		{Invariant: "I6", OK: true, Detail: "free + held = stock"}, {Invariant: "I17", OK: ok, Detail: "queues hold 0 tasks"},
	}})
}
