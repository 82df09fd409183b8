package httpapi

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/contract"
	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/orders"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait")) // which lingers for half a second, as long as goleak waits
}

// fakeOrders returns what a test sets. It has the sale "flash" with the item "shoe".
type fakeOrders struct {
	requests   []orders.Request
	screen     *orders.Outcome // decided in process
	seen       bool            // the process remembers an order
	replay     *orders.Outcome // the order in Redis
	reserve    orders.Outcome
	err        error // of every call but Prepare
	conditions []orders.Condition

	found   orders.Order
	viewer  orders.Viewer
	while   orders.Status
	waited  time.Duration
	query   orders.Query
	list    []orders.Order
	sales   []orders.SaleStatus
	put     orders.Sale
	item    orders.ItemDefinition
	created bool
	to      orders.Switch
	checks  []orders.Check
	paid    orders.Payment
	after   int64
	events  []orders.Event
	dead    []orders.DeadLetter
	afterID orders.ID
	panics  bool
	calls   []string

	mu sync.Mutex
}

// record keeps what a call asked for; calls may be concurrent.
func (f *fakeOrders) record(what func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what()
}

// Shown inverts the last byte of the ids of anonymous orders.
func (f *fakeOrders) Shown(id orders.ID, buyer string) orders.ID {
	if buyer == "" {
		id[15] = ^id[15]
	}
	return id
}

func (f *fakeOrders) ParseShown(text string) (orders.ID, error) { return orders.ParseID(text) }

func (f *fakeOrders) Prepare(r orders.Request) (sales.Attempt, error) {
	f.record(func() { f.calls = append(f.calls, "prepare") })
	f.record(func() { f.requests = append(f.requests, r) })
	switch {
	case f.panics:
		panic("the secret of the database is hunter2")
	case r.Sale != "flash":
		return nil, orders.ErrUnknownSale
	case r.Item != "shoe":
		return nil, orders.ErrUnknownItem
	}
	return fakeAttempt{f}, nil
}

type fakeAttempt struct{ f *fakeOrders }

func (t fakeAttempt) Screen() (orders.Outcome, bool) {
	t.f.record(func() { t.f.calls = append(t.f.calls, "screen") })
	if t.f.screen == nil {
		return orders.Outcome{}, false
	}
	return *t.f.screen, true
}

func (t fakeAttempt) Remembered() bool { return t.f.seen }

func (t fakeAttempt) Replay(context.Context) (orders.Outcome, bool, error) {
	t.f.record(func() { t.f.calls = append(t.f.calls, "replay") })
	if t.f.replay == nil {
		return orders.Outcome{}, false, t.f.err
	}
	return *t.f.replay, true, t.f.err
}

func (t fakeAttempt) Reserve(context.Context) (orders.Outcome, error) {
	t.f.record(func() { t.f.calls = append(t.f.calls, "reserve") })
	return t.f.reserve, t.f.err
}

func (f *fakeOrders) Sale(_ context.Context, sale string) (orders.SaleStatus, error) {
	if f.err != nil {
		return orders.SaleStatus{}, f.err
	}
	for _, s := range f.sales {
		if s.ID == sale {
			return s, nil
		}
	}
	return orders.SaleStatus{}, orders.ErrUnknownSale
}

func (f *fakeOrders) SaleState(sale string) (orders.SaleStatus, error) {
	return f.Sale(context.Background(), sale)
}

func (f *fakeOrders) SaleStates() ([]orders.SaleStatus, error) { return f.sales, f.err }

func (f *fakeOrders) Sales(_ context.Context, after string, limit int) (list []orders.SaleStatus, err error) {
	for _, s := range f.sales {
		if s.ID > after && (limit == 0 || len(list) < limit) {
			list = append(list, s)
		}
	}
	return list, f.err
}

func (f *fakeOrders) Order(_ context.Context, id orders.ID, v orders.Viewer) (orders.Order, error) {
	f.record(func() { f.viewer = v })
	if f.err != nil {
		return orders.Order{}, f.err
	}
	if id != f.found.ID || !v.CanRead(&f.found) {
		return orders.Order{}, orders.ErrUnknownOrder
	}
	return f.found, nil
}

func (f *fakeOrders) Wait(ctx context.Context, id orders.ID, v orders.Viewer, while orders.Status, wait time.Duration) (orders.Order, error) {
	f.record(func() { f.while, f.waited = while, wait })
	return f.Order(ctx, id, v)
}

func (f *fakeOrders) Orders(_ context.Context, q orders.Query) ([]orders.Order, error) {
	f.record(func() { f.query = q })
	return f.list[:min(q.Limit, len(f.list))], f.err
}

func (f *fakeOrders) PutSale(_ context.Context, d orders.Definition) (orders.SaleStatus, bool, error) {
	def, err := d.Sale()
	if err != nil {
		return orders.SaleStatus{}, false, err
	}
	f.record(func() { f.put = def })
	def.Switch = orders.SwitchDraft
	return orders.SaleStatus{Sale: def, State: orders.StateScheduled, Now: noon}, f.created, f.err
}

func (f *fakeOrders) PutItem(_ context.Context, sale string, item orders.ItemDefinition) (orders.SaleStatus, bool, error) {
	f.record(func() { f.item = item })
	s, err := f.Sale(context.Background(), sale)
	s.Items = []orders.Item{{ID: item.ID, Stock: item.Stock, QuotaPerBuyer: item.QuotaPerBuyer, InFlightMax: item.InFlightMax, Final: item.Final}}
	return s, f.created, err
}

func (f *fakeOrders) RebuildSale(_ context.Context, sale string) (orders.SaleStatus, error) {
	rebuilt := flash
	rebuilt.ID = sale
	return rebuilt, f.err
}

func (f *fakeOrders) SetSwitch(_ context.Context, sale string, to orders.Switch) (orders.SaleStatus, error) {
	f.record(func() { f.to = to })
	s, err := f.Sale(context.Background(), sale)
	s.Switch = to
	return s, err
}

func (f *fakeOrders) Cancel(ctx context.Context, id orders.ID, v orders.Viewer) (orders.Order, error) {
	f.record(func() { f.calls = append(f.calls, "cancel") })
	return f.Order(ctx, id, v)
}

func (f *fakeOrders) Pay(_ context.Context, id orders.ID, reference string) (orders.Payment, error) {
	f.record(func() { f.calls = append(f.calls, "capture "+id.String()+" "+reference) })
	return f.paid, f.err
}

func (f *fakeOrders) Events(_ context.Context, after int64, limit int, wait time.Duration) ([]orders.Event, error) {
	f.record(func() { f.after, f.waited = after, wait })
	return f.events[:min(limit, len(f.events))], f.err
}

func (f *fakeOrders) Backlog(context.Context) (orders.Backlog, error) { return orders.Backlog{}, f.err }
func (f *fakeOrders) InProgress(context.Context) (int, error)         { return 0, f.err }
func (f *fakeOrders) Committed() uint64                               { return 0 }
func (f *fakeOrders) Processes() ([]orders.Process, bool)             { return nil, false }

func (f *fakeOrders) Totals(context.Context, string) (orders.Totals, error) {
	return orders.Totals{}, nil
}

func (f *fakeOrders) DeadLetters(_ context.Context, after orders.ID, limit int) ([]orders.DeadLetter, error) {
	f.record(func() { f.afterID = after })
	return f.dead[:min(limit, len(f.dead))], f.err
}

func (f *fakeOrders) Replay(ctx context.Context, id orders.ID) (orders.Order, error) {
	f.record(func() { f.calls = append(f.calls, "replay") })
	return f.Order(ctx, id, orders.Viewer{All: true})
}

func (f *fakeOrders) Verify(context.Context, string) ([]orders.Check, error) { return f.checks, f.err }
func (f *fakeOrders) Conditions(context.Context) []orders.Condition          { return f.conditions }

var (
	noon    = time.Date(2026, 11, 21, 12, 0, 0, 123456789, time.FixedZone("", 3600))
	orderID = func() orders.ID {
		id, err := orders.ParseID("0193509c-2c00-8001-8000-1234567890ab")
		if err != nil {
			panic(err)
		}
		return id
	}()
	flash = orders.SaleStatus{
		Sale: orders.Sale{
			ID: "flash", Switch: orders.SwitchOpen, StartsAt: noon, EndsAt: noon.Add(time.Hour), RequiresUser: true, Hold: 15 * time.Minute,
			Items: []orders.Item{{ID: "shoe", Number: 1, Stock: 100, QuotaPerBuyer: 2, InFlightMax: 50}},
		},
		State: orders.StateOpen, Now: noon, Free: map[string]int{"shoe": 40},
	}
	accepted  = orders.Order{ID: orderID, Status: orders.StatusAccepted, Sale: "flash", Item: "shoe", Buyer: "ada", Quantity: 1, AcceptedAt: noon}
	confirmed = orders.Order{
		ID: orderID, Status: orders.StatusConfirmed, Sale: "flash", Item: "shoe", Buyer: "ada", Quantity: 2, Units: []int{7, 8},
		AcceptedAt: noon, ConfirmedAt: noon.Add(time.Second), PayBefore: noon.Add(15 * time.Minute),
	}
)

// fakeGate decides as a test sets.
type fakeGate struct {
	decision admission.Decision
	err      error
	asked    []admission.Request
	rules    *rules.Set
	orders   *fakeOrders // where calls are recorded

	mu          sync.Mutex
	did         []string // calls other than charges
	explanation admission.Explanation
	stats       admission.Stats
	bans        []bans.Ban
	ordered     bans.Order
}

func (g *fakeGate) Charge(_ context.Context, r admission.Request) (admission.Decision, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, r)
	if g.orders != nil {
		g.orders.record(func() { g.orders.calls = append(g.orders.calls, "charge") })
	}
	return g.decision, g.err
}

func (g *fakeGate) ChargeUnless(
	ctx context.Context, r admission.Request, excused func(context.Context) bool,
) (admission.Decision, error) {
	d, err := g.Charge(ctx, r)
	if err == nil && !d.Admitted && excused(ctx) {
		return admission.Decision{Admitted: true, Action: rules.Allow}, nil
	}
	return d, err
}

func (g *fakeGate) Refund(context.Context, admission.Decision) error {
	g.orders.record(func() { g.orders.calls = append(g.orders.calls, "refund") })
	return g.err
}

func (g *fakeGate) Check(_ context.Context, r admission.Request) (admission.Decision, error) {
	return g.other("check", r)
}

func (g *fakeGate) RefundRequest(_ context.Context, r admission.Request) (admission.Decision, error) {
	return g.other("refund", r)
}

func (g *fakeGate) Reset(_ context.Context, r admission.Request, rule string) (admission.Decision, error) {
	return g.other("reset "+rule, r)
}

func (g *fakeGate) other(what string, r admission.Request) (admission.Decision, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.did, g.asked = append(g.did, what), append(g.asked, r)
	return g.decision, g.err
}

func (g *fakeGate) Explain(_ context.Context, r admission.Request) (admission.Explanation, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, r)
	return g.explanation, g.err
}

func (g *fakeGate) Rules() *rules.Set           { return g.rules }
func (g *fakeGate) Reload() (*rules.Set, error) { return g.rules, g.err }
func (g *fakeGate) Stats() admission.Stats      { return g.stats }
func (g *fakeGate) Bans() []bans.Ban            { return slices.Clone(g.bans) }

func (g *fakeGate) Banned(admission.Request) (b bans.Ban, left time.Duration, ok bool) {
	return bans.Ban{}, 0, g.decision.Reason == admission.Banned
}

func (g *fakeGate) Ban(_ context.Context, o bans.Order) (bans.Ban, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ordered = o
	return bans.Ban{Target: o.Target, Reason: o.Reason, Since: noon, Until: noon.Add(o.For), Times: 1}, g.err
}

func (g *fakeGate) Lift(_ context.Context, t bans.Target) (bool, error) {
	known := slices.ContainsFunc(g.bans, func(b bans.Ban) bool { return b.Target == t })
	return known, g.err
}

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, p := range list {
		out[i] = netip.MustParsePrefix(p)
	}
	return out
}

// A bed is an API with fakes.
type bed struct {
	*API
	orders *fakeOrders
	gate   *fakeGate
	logged *strings.Builder
	test   *testing.T // nil: a benchmark

	publicDocument, internalDocument func() *contract.Document // of a test
}

// setup makes a bed with header identity, no tokens, and 10.0.0.0/8 as
// trusted proxies; change may alter that.
func setup(t testing.TB, change ...func(*Config)) *bed {
	t.Helper()
	f := &fakeOrders{
		sales: []orders.SaleStatus{flash}, reserve: orders.Outcome{Order: accepted}, found: confirmed, checks: []orders.Check{},
		paid: orders.Payment{Action: orders.ActionNone, Status: orders.StatusPaid},
	}
	b := &bed{orders: f, logged: &strings.Builder{}, gate: &fakeGate{
		decision: admission.Decision{Admitted: true, Action: rules.Allow}, rules: rules.Default(), orders: f,
	}}
	cfg := Config{
		Orders: f, Gate: b.gate, Identity: auth.HeaderIdentity{}, TrustedProxies: prefixes("10.0.0.0/8", "fd00::/8"),
		Logger: slog.New(slog.NewTextHandler(b.logged, nil)), Version: "test", Secret: []byte(strings.Repeat("k", 32)),
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			_, _ = io.WriteString(w, "up 1\n")
		}),
	}
	for _, c := range change {
		c(&cfg)
	}
	var err error
	if b.API, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	if test, ok := t.(*testing.T); ok {
		b.test = test
		b.publicDocument = sync.OnceValue(func() *contract.Document { return b.document(b.API.Public()) })
		b.internalDocument = sync.OnceValue(func() *contract.Document { return b.document(b.API.Internal()) })
	}
	return b
}

// Public is that of the API, and every answer is checked against the OpenAPI document.
func (b *bed) Public() http.Handler { return b.checked(b.publicDocument, b.API.Public()) }

// Internal is that of the API, and every answer is checked against the OpenAPI document.
func (b *bed) Internal() http.Handler { return b.checked(b.internalDocument, b.API.Internal()) }

// documents are those of all beds, by their text: most have the same.
var documents sync.Map

// document reads the document of a listener, without leaving a trace.
func (b *bed) document(h http.Handler) *contract.Document {
	b.test.Helper()
	served, tracer, log := b.cfg.Served, b.cfg.Tracer, b.log
	b.cfg.Served, b.cfg.Tracer, b.log = nil, nil, slog.New(slog.DiscardHandler)
	text := call(h, "GET", "/openapi.json", "").Body.String()
	b.cfg.Served, b.cfg.Tracer, b.log = served, tracer, log
	parsed, ok := documents.Load(text)
	if !ok {
		d, err := contract.Parse([]byte(text))
		if err != nil {
			b.test.Fatal(err)
		}
		parsed, _ = documents.LoadOrStore(text, d)
	}
	return parsed.(*contract.Document)
}

func (b *bed) checked(document func() *contract.Document, h http.Handler) http.Handler {
	if b.test == nil { // a benchmark
		return h
	}
	return contract.Checked(b.test, document(), h)
}

// call sends a request from loopback as ada. fields are names and values in turn; "Host" and "Remote" are not header fields.
func call(h http.Handler, method, target, body string, fields ...string) *httptest.ResponseRecorder {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, target, reader)
	r.RemoteAddr = "127.0.0.1:40000"
	r.Host = "localhost:8080"
	r.Header.Set("X-User-ID", "ada")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(fields); i += 2 {
		switch name, value := fields[i], fields[i+1]; {
		case name == "Host":
			r.Host = value
		case name == "Remote":
			r.RemoteAddr = value
		case value == "":
			r.Header.Del(name)
		default:
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
