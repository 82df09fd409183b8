package login_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/login"
)

// commands is a hook that keeps what is sent.
type commands struct {
	mu   sync.Mutex
	sent []string // guarded by mu: the name of each, how many keys and how many bytes
}

func (c *commands) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *commands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.mu.Lock()
		line := fmt.Sprint(cmd.Name())
		for _, arg := range cmd.Args()[1:] {
			switch a := arg.(type) {
			case string:
				line += fmt.Sprint(" ", len(a))
			case []byte:
				line += fmt.Sprint(" ", len(a))
			default:
				line += fmt.Sprint(" ", a)
			}
		}
		c.sent = append(c.sent, line)
		c.mu.Unlock()
		return next(ctx, cmd)
	}
}

func (c *commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A name that exists and one that does not are asked about in the same words, and answered in the same.
func TestNobodyLearnsWhichNamesExist(t *testing.T) {
	opts, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	hook := &commands{}
	rdb.AddHook(hook)
	c := newClock()
	store := login.NewRedisStore(rdb)
	store.SetNow(c.now)
	th := throttle(t, store, rules.Default, login.Options{Captcha: everything{}})
	device(t, th, "exists-1") // he has an account, and has been here

	// story is a day of guesses of a name, as answers and as commands.
	story := func(name, ip string) (answers, sent []string) {
		hook.mu.Lock()
		hook.sent = nil
		hook.mu.Unlock()
		for i := range 30 {
			a := attempt(name, fmt.Sprint(ip, i%3))
			if i%4 == 0 {
				a.Captcha = "right"
			}
			d, _ := try(t, th, a, login.Failure)
			d.ID, d.Challenge.Subject = fmt.Sprint(len(d.ID)), fmt.Sprint(len(d.Challenge.Subject))
			answers = append(answers, fmt.Sprintf("%+v", d))
		}
		c.advance(0)
		hook.mu.Lock()
		defer hook.mu.Unlock()
		return answers, hook.sent
	}
	knownAnswers, known := story("exists-1", "192.0.2.10")
	unknownAnswers, unknown := story("no-such1", "192.0.2.20")
	if !slices.Equal(knownAnswers, unknownAnswers) {
		t.Errorf("answers differ:\n%s\n%s", strings.Join(knownAnswers, "\n"), strings.Join(unknownAnswers, "\n"))
	}
	if !slices.Equal(known, unknown) || len(known) < 30 {
		t.Errorf("commands differ:\n%s\n%s", strings.Join(known, "\n"), strings.Join(unknown, "\n"))
	}
}

// The store's content reveals no name, no address and no token.
func TestStoreNamesNobody(t *testing.T) {
	opts, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	namespace := uuid.NewString()
	th := throttle(t, login.NewRedisStore(rdb), rules.Default, login.Options{Namespace: namespace, Captcha: everything{}})
	ips := []string{"203.0.113.77", "2001:db8:aaaa:bbbb::77"}
	token := device(t, th, "alice@shop.example")
	for i, ip := range ips {
		a := attempt("Alice@shop.example", ip)
		a.ID, a.Captcha = "request-7", "right"
		try(t, th, a, login.Failure)
		if a.Device = token; i == 0 {
			a.ID = ""
		}
		try(t, th, a, login.Failure)
	}
	secrets := map[string][]byte{"the name": []byte("alice"), "part of the name": []byte("shop.example"), "the request's id": []byte("request-7")}
	for i, ip := range ips {
		addr := netip.MustParseAddr(ip)
		secrets[ip] = []byte(ip)
		secrets[fmt.Sprint("bytes of ", i)] = addr.AsSlice()[:min(8, addr.BitLen()/8)]
		secrets[fmt.Sprint("its hex ", i)] = []byte(hex.EncodeToString(addr.AsSlice()[:min(8, addr.BitLen()/8)]))
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	secrets["the token"], secrets["the token's id"] = []byte(token), raw[1:13]
	secrets["the token's id in a key"] = []byte(base64.RawURLEncoding.EncodeToString(raw[1:13]))

	keys := 0
	for iter := rdb.Scan(t.Context(), 0, namespace+"*", 1000).Iterator(); iter.Next(t.Context()); keys++ {
		key := iter.Val()
		value, err := rdb.Get(t.Context(), key).Bytes()
		if err != nil {
			t.Fatal(key, err)
		}
		for what, secret := range secrets {
			if strings.Contains(strings.ToLower(key), strings.ToLower(string(secret))) || strings.Contains(string(value), string(secret)) {
				t.Errorf("%s stands in %q, %q", what, key, value)
			}
		}
		if ttl, err := rdb.TTL(t.Context(), key).Result(); err != nil || ttl <= 0 {
			t.Errorf("%s lives %v, %v", key, ttl, err)
		}
	}
	if keys < 8 {
		t.Errorf("%d keys were looked at", keys)
	}
}

// Names and addresses are found under other keys by whom has another secret: hashes cannot be made by trying all addresses.
func TestKeysNeedTheSecret(t *testing.T) {
	opts, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	namespace := uuid.NewString()
	for _, secret := range []string{"a secret of 16 bytes", "another secret of 16"} {
		th, err := login.New(login.NewRedisStore(rdb), rules.Default, login.Options{Secret: []byte(secret), Namespace: namespace})
		if err != nil {
			t.Fatal(err)
		}
		if d, err := th.Report(t.Context(), attempt("alice", "192.0.2.1")); err != nil || d.Degraded {
			t.Fatal(d, err)
		}
	}
	var keys []string
	for iter := rdb.Scan(t.Context(), 0, namespace+"*", 1000).Iterator(); iter.Next(t.Context()); {
		keys = append(keys, iter.Val())
	}
	if len(keys) != 6 { // of a name, a pair and an address
		t.Errorf("two secrets have %d keys: %q", len(keys), keys)
	}
}
