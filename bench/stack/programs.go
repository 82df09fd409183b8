package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"

	"github.com/tidegate/tidegate/bench/crowd"
)

// A Stack is a set of programs that accept and commit orders.
type Stack struct {
	Name     string
	own      bool     // this project's stack
	programs string   // folder
	program  string   // of a stack that is not this project's: its file there, which has the roles api and worker
	worker   []string // additional arguments of that worker
	start    func(st *Stack, ctx context.Context, s *Servers, o Options) (*Running, error)
	order    func(sale, item, user string) []byte
	offer    func(r *Running, ctx context.Context, sale string, items, stock int, hold time.Duration) error
}

// Options of a start.
type Options struct {
	APIs     int    // 0: one
	Workers  int    // 0: one; None: none
	Rules    string // rules file of this project; empty: OneRule
	Cluster  bool   // decisions and queue of this project on a Redis Cluster of three masters
	OwnQueue bool   // the queue of this project on a Redis of its own
}

// None is the number of workers of a stack without workers.
const None = -1

// OneRule counts each user's orders, with a limit that is never reached.
const OneRule = `version: 1
rules: [{name: orders, match: {route: "/v1/sales/*/orders", method: POST}, subject: [user], limit: 100, window: 1m}]
`

// Running is the processes of a started stack.
type Running struct {
	APIs, Workers []*Process
	internal      string // address of this project's internal listener
	dir           string
	stack         *Stack
}

// Tidegate compiles the programs of a checkout of this project.
func Tidegate(t testing.TB, name, root string) (*Stack, error) {
	st := &Stack{Name: name, own: true, programs: t.TempDir(), start: startTidegate, order: orderTidegate, offer: offerTidegate}
	return st, build(t.Context(), root, st.programs, "./cmd/api", "./cmd/worker")
}

// Handmade compiles the hand-assembled stack. bench is the directory of the module bench. The worker of tuned writes an order with one
// statement instead of a transaction.
func Handmade(t testing.TB, bench string) (st, tuned *Stack, err error) {
	if st, err = twoRoles(t, bench, "handmade"); err != nil {
		return nil, nil, err
	}
	other := *st
	other.Name, other.worker = "handmade, one statement", []string{"-one-statement"}
	return st, &other, nil
}

// Floor compiles the least that accepts and commits orders, of one item.
func Floor(t testing.TB, bench string) (*Stack, error) { return twoRoles(t, bench, "floor") }

func twoRoles(t testing.TB, bench, program string) (*Stack, error) {
	st := &Stack{
		Name: program, programs: t.TempDir(), program: program, start: startTwoRoles, order: orderTwoRoles, offer: offerTwoRoles,
	}
	return st, build(t.Context(), bench, st.programs, "./"+program)
}

func build(ctx context.Context, root, into string, packages ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-o", into}, packages...)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build in %s: %w\n%s", root, err, out)
	}
	return nil
}

// Start empties the servers and starts the stack on them.
func (st *Stack) Start(ctx context.Context, s *Servers, o Options) (*Running, error) {
	switch o.APIs = max(1, o.APIs); o.Workers {
	case 0:
		o.Workers = 1
	case None:
		o.Workers = 0
	}
	if o.Rules == "" {
		o.Rules = OneRule
	}
	r, err := st.start(st, ctx, s, o)
	if err != nil {
		if r != nil {
			r.Stop()
		}
		return nil, fmt.Errorf("%s: %w", st.Name, err)
	}
	return r, nil
}

// Stop ends all processes.
func (r *Running) Stop() {
	for _, p := range append(append([]*Process{}, r.APIs...), r.Workers...) {
		p.Stop()
	}
}

// Own reports whether the stack is this project's.
func (st *Stack) Own() bool { return st.own }

// Offer starts the sale of items named item-0, item-1 …, and returns when they can be ordered. If hold is not 0, this project's orders
// must be paid within it.
func (r *Running) Offer(ctx context.Context, sale string, items, stock int, hold time.Duration) error {
	return r.stack.offer(r, ctx, sale, items, stock, hold)
}

// Internal returns the address of the internal listener of this project's last API.
func (r *Running) Internal() string { return r.internal }

// Order returns a request for one unit.
func (r *Running) Order(sale, item, user string) []byte { return r.stack.order(sale, item, user) }

// Addrs returns the addresses of the APIs.
func (r *Running) Addrs() (addrs []string) {
	for _, p := range r.APIs {
		addrs = append(addrs, p.Addr)
	}
	return addrs
}

// Item returns the name of an item created by Offer.
func Item(n int) string { return "item-" + strconv.Itoa(n) }

func local() string { return "127.0.0.1:" + strconv.Itoa(testenv.FreePort()) }

const secret = "known-to-benchmarks-only-0123456789"

func startTidegate(st *Stack, ctx context.Context, s *Servers, o Options) (*Running, error) {
	decisions, queue, err := s.redisFor(ctx, o)
	if err != nil {
		return nil, err
	}
	database, err := s.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	r := &Running{stack: st, dir: st.programs}
	rules := filepath.Join(st.programs, "rules.yaml")
	if err := os.WriteFile(rules, []byte(o.Rules), 0o600); err != nil {
		return nil, err
	}
	env := []string{"REDIS_URL=" + decisions, "QUEUE_REDIS_URL=" + queue, "DATABASE_URL=" + database, "RULES_FILE=" + rules, "MIGRATE=true"}
	for i := range o.APIs {
		listen, internal := local(), local()
		p, err := start(r.dir, fmt.Sprint("api-", i), filepath.Join(st.programs, "api"), nil,
			append(env, "LISTEN="+listen, "INTERNAL_LISTEN="+internal, "IDENTITY=header", "SECRET="+secret))
		if err != nil {
			return r, err
		}
		p.Addr, r.internal = listen, internal
		r.APIs = append(r.APIs, p)
		if err := p.await(ctx, "/readyz"); err != nil {
			return r, err
		}
	}
	for i := range o.Workers {
		listen := local()
		p, err := start(r.dir, fmt.Sprint("worker-", i), filepath.Join(st.programs, "worker"), nil, append(env, "WORKER_LISTEN="+listen))
		if err != nil {
			return r, err
		}
		p.Addr = listen
		r.Workers = append(r.Workers, p)
		if err := p.await(ctx, "/readyz"); err != nil {
			return r, err
		}
	}
	return r, nil
}

func orderTidegate(sale, item, user string) []byte {
	return crowd.Request("POST", "/v1/sales/"+sale+"/orders", `{"item":"`+item+`"}`, "X-User-ID", user)
}

func offerTidegate(r *Running, ctx context.Context, sale string, items, stock int, hold time.Duration) error {
	var list strings.Builder
	for i := range items {
		if i > 0 {
			list.WriteString(",")
		}
		fmt.Fprintf(&list, `{"item":%q,"stock":%d,"in_flight_max":1000000}`, Item(i), stock)
	}
	now := time.Now().UTC()
	base := "http://" + r.internal + "/v1/sales/" + sale
	body := fmt.Sprintf(`{"starts_at":%q,"ends_at":%q,"hold_ms":%d,"items":[%s]}`,
		now.Add(-time.Hour).Format(time.RFC3339), now.Add(24*time.Hour).Format(time.RFC3339), hold.Milliseconds(), list.String())
	for _, call := range [][3]string{{"PUT", base, body}, {"POST", base + "/open", ""}} {
		if err := insist(ctx, call[0], call[1], call[2]); err != nil {
			return err
		}
	}
	// The APIs receive the definition a moment later.
	for _, p := range r.APIs {
		for deadline := time.Now().Add(startWithin); ; time.Sleep(10 * time.Millisecond) {
			_, answer, err := Call(ctx, "GET", "http://"+p.Addr+"/v1/sales/"+sale, "")
			if strings.Contains(string(answer), `"state":"open"`) {
				break
			}
			if time.Now().After(deadline) || ctx.Err() != nil {
				return errors.Join(fmt.Errorf("the sale does not open: %s", answer), err)
			}
		}
	}
	return nil
}

func startTwoRoles(st *Stack, ctx context.Context, s *Servers, o Options) (*Running, error) {
	database, err := s.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	r := &Running{stack: st, dir: st.programs}
	args := []string{"-redis", s.redisURL, "-database", database}
	for i := range o.APIs {
		listen := local()
		p, err := start(r.dir, fmt.Sprint("api-", i), filepath.Join(st.programs, st.program), append(args, "-role", "api", "-listen", listen),
			nil)
		if err != nil {
			return r, err
		}
		p.Addr = listen
		r.APIs = append(r.APIs, p)
		if err := p.await(ctx, "/healthz"); err != nil {
			return r, err
		}
	}
	for i := range o.Workers {
		p, err := start(r.dir, fmt.Sprint("worker-", i), filepath.Join(st.programs, st.program),
			append(append(args, "-role", "worker"), st.worker...), nil)
		if err != nil {
			return r, err
		}
		r.Workers = append(r.Workers, p)
	}
	return r, nil
}

func orderTwoRoles(sale, item, user string) []byte {
	return crowd.Request("POST", "/sales/"+sale+"/orders", `{"item":"`+item+`"}`, "X-User-ID", user)
}

func offerTwoRoles(r *Running, ctx context.Context, sale string, items, stock int, _ time.Duration) error {
	for i := range items {
		if err := insist(ctx, "PUT", "http://"+r.APIs[0].Addr+"/sales/"+sale+"/items/"+Item(i), fmt.Sprintf(`{"stock":%d}`, stock)); err != nil {
			return err
		}
	}
	return nil
}

// Bare compiles the servers that do nothing. The kinds for StartBare are echo and http.
func Bare(t testing.TB, bench string) (programs string, err error) {
	programs = t.TempDir()
	return programs, build(t.Context(), bench, programs, "./bare")
}

// StartBare starts a server that does nothing.
func StartBare(ctx context.Context, programs, kind string) (*Process, error) {
	listen := local()
	p, err := start(programs, kind, filepath.Join(programs, "bare"), []string{"-kind", kind, "-listen", listen}, nil)
	if err != nil {
		return nil, err
	}
	p.Addr = listen
	if err := p.await(ctx, "/readyz"); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// Embedded returns a stack with this project's embedded server, from the programs of st.
func (st *Stack) Embedded() *Stack {
	return &Stack{
		Name: st.Name + ", embedded", own: true, programs: st.programs, start: startEmbedded, order: orderTidegate,
		offer: offerTidegate,
	}
}

func startEmbedded(st *Stack, ctx context.Context, _ *Servers, o Options) (*Running, error) {
	data, err := os.MkdirTemp(st.programs, "data-")
	if err != nil {
		return nil, err
	}
	rules := filepath.Join(data, "rules.yaml")
	if err := os.WriteFile(rules, []byte(o.Rules), 0o600); err != nil {
		return nil, err
	}
	r := &Running{stack: st, dir: data, internal: local()}
	listen := local()
	p, err := start(data, "embedded", filepath.Join(st.programs, "api"), nil,
		[]string{"TIDEGATE_DATA=" + data, "RULES_FILE=" + rules, "LISTEN=" + listen, "INTERNAL_LISTEN=" + r.internal})
	if err != nil {
		return r, err
	}
	p.Addr = listen
	r.APIs = []*Process{p}
	return r, p.await(ctx, "/readyz")
}

// Put defines something on a stack of this project, such as a room or a semaphore.
func (r *Running) Put(ctx context.Context, path, body string) error {
	return insist(ctx, "PUT", "http://"+r.internal+path, body)
}

// Ban bans a user from a stack of this project.
func (r *Running) Ban(ctx context.Context, user string) error {
	return r.Put(ctx, "/v1/bans/user/"+user, `{"for_ms":3600000,"reason":"bench"}`)
}
