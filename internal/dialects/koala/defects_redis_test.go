package koala_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/internal/dialects/koala"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/redisclient"
)

// K11: while Redis is away every process limits by itself, and lists work as ever. The original lets everybody in.
func TestK11WithoutRedisItStillLimits(t *testing.T) {
	const rules = `rule : [direct] [uid=black] [time=1; count=0] [result=2; return=101]
rule : [count] [uid=+] [time=600; count=3] [result=2; return=201]
rule : [leak] [who=+] [time=600; count=3] [result=2; return=202]
rule : [base] [it=+] [base=2; time=600; count=1] [result=2; return=203]`
	for name, away := range map[string]func(*testenv.RedisServer){"gone": (*testenv.RedisServer).Kill, "frozen": (*testenv.RedisServer).Stop} {
		t.Run(name, func(t *testing.T) {
			rdb, server := ownRedis(t)
			o := newOriginal(t, rdb, rules)
			// Not patient: what is away is to be given up.
			path := filepath.Join(t.TempDir(), "rules.conf")
			writePolicy(t, path, "", rules)
			service, err := koala.New(redisstore.New(rdb), koala.Options{
				Path: path, Secret: fileSecret, Namespace: "test-away-" + name,
				Alive: func(ctx context.Context) error { return rdb.Ping(ctx).Err() },
			})
			if err != nil {
				t.Fatal(err)
			}
			s := ours{Service: service, t: t}
			if err := s.Alive(t.Context()); err != nil {
				t.Fatal(err)
			}
			away(server)
			if name == "gone" { // it would wait for one that is frozen
				if in := admitted(t.Context(), o, uid, 10); in != 10 {
					t.Errorf("the original admits %d of 10, is known to admit all", in)
				}
				if err := s.Alive(t.Context()); err == nil {
					t.Error("it is said to be alive")
				}
			}
			for _, parameter := range []string{"uid", "who", "it"} {
				if in := admitted(t.Context(), s, koala.Params{parameter: "7"}, 10); in != 3 {
					t.Errorf("%s: %d of 10 are admitted, want 3", parameter, in)
				}
			}
			for range 3 {
				s.update(t.Context(), koala.Params{"uid": "of update"})
			}
			if code := s.browse(t.Context(), koala.Params{"uid": "of update"}); code != 201 {
				t.Errorf("after three updates: answered by %d", code)
			}
			black := koala.Params{"uid": "black", "who": "7"}
			if code := s.writeThrough(t.Context(), black); code != 101 {
				t.Errorf("the black list: answered by %d", code)
			}
			all, err := s.BrowseComplete(t.Context(), black, false)
			if err != nil || len(all) == 0 || all[0].RetCode != 101 {
				t.Errorf("the black list, completely: %v, %v", all, err)
			}
			several, err := s.BrowseAll(t.Context(), []koala.Params{black, {"who": "7"}, {"who": "8"}})
			if err != nil || several[0].Result.RetCode != 101 || several[1].Result.RetCode != 202 || several[2].Result.RetCode != 0 {
				t.Errorf("several: %v, %v", several, err)
			}
			// What cannot be known is not made up.
			if _, err := s.Value(t.Context(), uid, 201); !errors.Is(err, admission.ErrUnavailable) {
				t.Errorf("value: %v", err)
			}
			if err := s.Feedback(t.Context(), koala.Params{"who": "7"}, 1); err != nil && !errors.Is(err, admission.ErrUnavailable) {
				t.Errorf("feedback: %v", err)
			}
		})
	}
}

// K12: a decision is one round trip, or two, however many rules match.
func TestK12OneRoundTripForAllRules(t *testing.T) {
	var lines []string
	for i := range 20 {
		lines = append(lines, fmt.Sprintf("rule : [%s] [uid=+] [time=600; count=1000] [result=2; return=%d]", []string{"count", "leak"}[i%2], 200+i))
	}
	rules := strings.Join(lines, "\n")
	rdb, _ := ownRedis(t)
	asked := &trips{}
	rdb.AddHook(asked)
	o := newOriginal(t, rdb, rules)
	if n := asked.during(func() { o.browse(t.Context(), uid) }); n < 20 {
		t.Errorf("the original makes %d round trips, is known to make one a rule", n)
	}
	s := newOurs(t, redisstore.New(rdb), rules+"\nrule : [direct] [black=+] [time=1; count=0] [result=2; return=101]\nrule : [count] [uid=+] [time=600; count=1] [result=2; return=102]")
	s.browse(t.Context(), uid) // Redis learns the script
	black := koala.Params{"uid": "7", "black": "1"}
	for name, one := range map[string]struct {
		most int
		do   func()
	}{
		"browse":              {1, func() { s.browse(t.Context(), uid) }},
		"write through":       {1, func() { s.writeThrough(t.Context(), uid) }},
		"update":              {1, func() { s.update(t.Context(), uid) }},
		"browse, black":       {1, func() { s.browse(t.Context(), black) }},
		"feedback, of none":   {0, func() { _ = s.Feedback(t.Context(), uid, 1) }},
		"value":               {1, func() { s.value(uid, 200) }},
		"complete":            {2, func() { _, _ = s.BrowseComplete(t.Context(), uid, false) }},
		"complete, black":     {2, func() { _, _ = s.BrowseComplete(t.Context(), black, false) }},
		"complete, no match":  {0, func() { _, _ = s.BrowseComplete(t.Context(), koala.Params{"x": "1"}, false) }},
		"complete and writes": {2, func() { _, _ = s.BrowseComplete(t.Context(), uid, true) }},
	} {
		if n := asked.during(one.do); n > one.most {
			t.Errorf("%s: %d round trips, want at most %d", name, n, one.most)
		}
	}
}

// K12: a password is sent if there is one: Redis refuses one that it has not asked for.
func TestK12APasswordIsSentIfThereIsOne(t *testing.T) {
	for _, password := range []string{"", "hunter2"} {
		rdb, server := ownRedis(t)
		login := ""
		if password != "" {
			login = ":" + password + "@"
			if err := rdb.ConfigSet(t.Context(), "requirepass", password).Err(); err != nil {
				t.Fatal(err)
			}
		}
		opts, err := redisclient.ParseURL("redis://" + login + server.Addr() + "/0")
		if err != nil {
			t.Fatal(err)
		}
		client := redis.NewUniversalClient(opts)
		t.Cleanup(func() { client.Close() })
		s := newOurs(t, redisstore.New(client), threeADay)
		// While Redis is unavailable there is no value to return.
		if in, n := admitted(t.Context(), s, uid, 5), s.value(uid, 201); in != 3 || n != 3 {
			t.Errorf("password %q: %d are admitted, %d counted", password, in, n)
		}
	}
}

// trips counts how often a client asks Redis and waits.
type trips struct{ n atomic.Int32 }

func (*trips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

func (c *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmds)
	}
}

func (c *trips) during(do func()) int {
	before := c.n.Load()
	do()
	return int(c.n.Load() - before)
}
