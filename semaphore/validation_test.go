package semaphore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/semaphore"
)

// What could never be right is refused before anything is sent.
func TestInvalid(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	defer rdb.Close()
	set, err := semaphore.NewSet(rdb, semaphore.SetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := of(t, set, "shop:report")
	acquiring := func(r semaphore.Request) error {
		_, _, err := s.AcquireWith(context.Background(), r)
		return err
	}
	named := func(name string) error {
		_, err := set.Semaphore(name)
		return err
	}
	setting := func(opts semaphore.SetOptions) error {
		_, err := semaphore.NewSet(rdb, opts)
		return err
	}
	renewing := func(id string) error {
		_, err := s.Renew(context.Background(), id)
		return err
	}
	_, newErr := semaphore.New(rdb, "report", semaphore.Options{Limit: -1})
	_, newNameErr := semaphore.New(rdb, "Report", semaphore.Options{Limit: 1})
	for what, err := range map[string]error{
		"no name":                     named(""),
		"a name with capitals":        named("Report"),
		"a name with two colons":      named("a:b:c"),
		"a name with braces":          named("{a}"),
		"a name that is too long":     named(strings.Repeat("a", 65)),
		"a tag that is too long":      named(strings.Repeat("a", 65) + ":a"),
		"an empty tag":                named(":a"),
		"a namespace with a space":    setting(semaphore.SetOptions{Namespace: "a b"}),
		"a namespace with braces":     setting(semaphore.SetOptions{Namespace: "{a}"}),
		"a holder with a line break":  setting(semaphore.SetOptions{Holder: "a\nb"}),
		"a limit below 0":             newErr,
		"a bad name of one":           newNameErr,
		"a limit above the largest":   s.Define(context.Background(), semaphore.Definition{Limit: semaphore.MaxLimit + 1}),
		"a lease that is too short":   s.Define(context.Background(), semaphore.Definition{Lease: semaphore.MinLease - 1}),
		"a lease that is too long":    s.Define(context.Background(), semaphore.Definition{Lease: semaphore.MaxLease + 1}),
		"a weight below 1":            acquiring(semaphore.Request{Weight: -1}),
		"a weight above the largest":  acquiring(semaphore.Request{Weight: semaphore.MaxWeight + 1}),
		"a long holder":               acquiring(semaphore.Request{Holder: strings.Repeat("a", semaphore.MaxText+1)}),
		"a holder that is no UTF-8":   acquiring(semaphore.Request{Holder: "\xff"}),
		"a long request id":           acquiring(semaphore.Request{ID: strings.Repeat("a", semaphore.MaxText+1)}),
		"a request id with a control": acquiring(semaphore.Request{ID: "\x7f"}),
		"another tag":                 acquiring(semaphore.Request{Also: []string{"report"}}),
		"a bad name besides":          acquiring(semaphore.Request{Also: []string{"shop:"}}),
		"itself besides":              acquiring(semaphore.Request{Also: []string{"shop:report"}}),
		"the same twice besides":      acquiring(semaphore.Request{Also: []string{"shop:a", "shop:a"}}),
		"too many besides":            acquiring(semaphore.Request{Also: make([]string, semaphore.MaxAlso+1)}),
		"no permit's id":              renewing(""),
		"a permit's id of weight 0":   renewing(strings.Repeat("A", 22) + ".a.0"),
		"a permit's id of token 0":    renewing(strings.Repeat("A", 22) + ".0.1"),
		"a permit's id of 2^60":       s.Release(context.Background(), strings.Repeat("A", 22)+".zzzzzzzzzzz.1"),
		"a permit's id of a bad name": s.Release(context.Background(), strings.Repeat("A", 22)+".a.1~other"),
	} {
		if !errors.Is(err, semaphore.ErrInvalid) || !strings.HasPrefix(err.Error(), "semaphore: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, name := range []string{"a", "0-9", strings.Repeat("a", 64), strings.Repeat("a", 64) + ":" + strings.Repeat("b", 64)} {
		if err := semaphore.CheckName(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Without Redis nothing is granted, and the error says so.
func TestWithoutRedis(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	defer rdb.Close()
	s, err := semaphore.New(rdb, "report", semaphore.Options{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	running(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for what, err := range map[string]error{
		"Acquire":    func() error { _, _, err := s.Acquire(ctx); return err }(),
		"TryAcquire": func() error { _, _, err := s.TryAcquire(ctx); return err }(),
		"Status":     func() error { _, err := s.Status(ctx); return err }(),
		"Define":     s.Define(ctx, semaphore.Definition{Limit: 1}),
	} {
		if err == nil || errors.Is(err, semaphore.ErrUnknown) || ctx.Err() != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
