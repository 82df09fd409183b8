package koala_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/internal/dialects/koala"
	"github.com/tidegate/tidegate/internal/testenv"
)

// A front is asked as Koala is. Answers are return numbers, 0 if the caller is let in.
type front interface {
	browse(ctx context.Context, params koala.Params) int
	writeThrough(ctx context.Context, params koala.Params) int
	update(ctx context.Context, params koala.Params)
	settle() // waits for what was said to be done and is not
}

func (o *original) settle() { o.updates.Wait() }

// ours is a Service as a front.
type ours struct {
	*koala.Service
	t         testing.TB
	namespace string
	file      string
}

func (s ours) browse(ctx context.Context, params koala.Params) int {
	s.t.Helper()
	return s.ask(ctx, params, false).RetCode
}

func (s ours) writeThrough(ctx context.Context, params koala.Params) int {
	s.t.Helper()
	return s.ask(ctx, params, true).RetCode
}

func (s ours) ask(ctx context.Context, params koala.Params, write bool) koala.Result {
	s.t.Helper()
	result, err := s.Browse(ctx, params, write)
	if err != nil {
		s.t.Errorf("Browse(%v): %v", params, err)
		result.RetCode = -1
	}
	return result
}

func (s ours) update(ctx context.Context, params koala.Params) {
	s.t.Helper()
	if err := s.Update(ctx, params); err != nil {
		s.t.Errorf("Update(%v): %v", params, err)
	}
}

func (s ours) settle() {}

// value is what a rule has counted.
func (s ours) value(params koala.Params, code int) int {
	s.t.Helper()
	n, err := s.Value(s.t.Context(), params, code)
	if err != nil {
		s.t.Errorf("Value(%v, %d): %v", params, code, err)
	}
	return n
}

const results = `[result]
1 : {"Ret_type":1, "Str_reason":"Allow"}
2 : {"Ret_type":2, "Err_no":10, "Err_msg":"too often", "Str_reason":"Deny"}
3 : {"Ret_type":3, "Err_no":20, "Str_reason":"Vcode", "Need_vcode":1, "Vcode_len":4}
`

// writePolicy writes a rule file.
func writePolicy(t testing.TB, path, dicts, rules string) {
	t.Helper()
	replace(t, filepath.Dir(path), filepath.Base(path), "[dicts]\n"+dicts+"\n[rules]\n"+rules+"\n"+results)
}

var namespaces atomic.Int64

// newOurs makes a Service of rules, one a line.
func newOurs(t testing.TB, st store.Store, rules string, change ...func(*koala.Options)) ours {
	t.Helper()
	o := koala.Options{
		Path: filepath.Join(t.TempDir(), "rules.conf"), Secret: fileSecret, Logger: slog.New(slog.DiscardHandler),
		Namespace: fmt.Sprintf("test-%d-%d", time.Now().UnixNano(), namespaces.Add(1)),
		Alive:     func(context.Context) error { return nil },
	}
	writePolicy(t, o.Path, "", rules)
	for _, c := range change {
		c(&o)
	}
	s, err := koala.New(patient{st}, o)
	if err != nil {
		t.Fatal(err)
	}
	return ours{s, t, o.Namespace, o.Path}
}

// another is another process beside s: it shares Redis, namespace and rules with it.
func another(t testing.TB, rdb *redis.Client, s ours, rules string) ours {
	t.Helper()
	return newOurs(t, redisstore.New(rdb), rules, func(o *koala.Options) { o.Namespace = s.namespace })
}

// A patient store is waited for on a machine that does other things: a slow one is no lost one.
type patient struct{ store.Store }

func (p patient) Decide(ctx context.Context, call store.Call) ([]store.Count, error) {
	return p.Store.Decide(context.WithoutCancel(ctx), call)
}

func inMemory() store.Store { return memorystore.New(memorystore.Options{}) }

// ownRedis is a Redis of the test's own: the original has no namespaces.
func ownRedis(t testing.TB, args ...string) (*redis.Client, *testenv.RedisServer) {
	t.Helper()
	server := testenv.StartRedis(t, args...)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute, WriteTimeout: time.Minute, PoolTimeout: time.Minute, MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { rdb.Close() })
	return rdb, server
}

// admitted is how many of n write-throughs, one after the other, are let in.
func admitted(ctx context.Context, f front, params koala.Params, n int) (in int) {
	for range n {
		if f.writeThrough(ctx, params) == 0 {
			in++
		}
		f.settle()
	}
	return in
}

// together calls do n times at once.
func together(n int, do func(i int)) {
	var (
		all   sync.WaitGroup
		start = make(chan struct{})
	)
	for i := range n {
		all.Go(func() {
			<-start
			do(i)
		})
	}
	close(start)
	all.Wait()
}
