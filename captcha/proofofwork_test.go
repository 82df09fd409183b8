package captcha_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	altcha "github.com/altcha-org/altcha-lib-go"

	"github.com/tidegate/tidegate/captcha"
)

var (
	secret = []byte("a secret of at least 16 bytes")
	login  = captcha.Binding{Purpose: "login", Subject: "ann"}
	nobody netip.Addr
)

// newProof makes a provider whose challenges are easy.
func newProof(t testing.TB, change ...func(*captcha.ProofOfWorkOptions)) *captcha.ProofOfWork {
	t.Helper()
	o := captcha.ProofOfWorkOptions{Secret: secret, Used: &memoryUsed{}, MaxNumber: 100}
	for _, c := range change {
		c(&o)
	}
	p, err := captcha.NewProofOfWork(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func challengeOf(t testing.TB, p captcha.Provider, b captcha.Binding) altcha.Challenge {
	t.Helper()
	made, err := p.Challenge(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	var c altcha.Challenge
	if err := json.Unmarshal(made.JSON, &c); err != nil || made.Provider != "altcha" {
		t.Fatal(err, made)
	}
	return c
}

// solve does what the widget does.
func solve(t testing.TB, c altcha.Challenge) altcha.Payload {
	t.Helper()
	s, err := altcha.SolveChallenge(c.Challenge, c.Salt, altcha.SHA256, int(c.MaxNumber), 0, nil)
	if err != nil || s == nil {
		t.Fatal("there is no solution ", err)
	}
	return altcha.Payload{Algorithm: c.Algorithm, Challenge: c.Challenge, Number: int64(s.Number), Salt: c.Salt, Signature: c.Signature}
}

func encode(t testing.TB, payload any) string {
	t.Helper()
	text, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(text)
}

func solved(t testing.TB, p captcha.Provider, b captcha.Binding) string {
	t.Helper()
	return encode(t, solve(t, challengeOf(t, p, b)))
}

// wantCause fails unless err refuses for a cause.
func wantCause(t testing.TB, err error, want captcha.Cause) {
	t.Helper()
	var no *captcha.RefusedError
	if !errors.As(err, &no) || !errors.Is(err, captcha.ErrRefused) || no.Cause != want {
		t.Errorf("refused because %v, want %s", err, want)
	}
}

func TestSolutionOpensOnce(t *testing.T) {
	p := newProof(t)
	token := solved(t, p, login)
	if err := p.Verify(t.Context(), token, login, nobody); err != nil {
		t.Fatal(err)
	}
	wantCause(t, p.Verify(t.Context(), token, login, nobody), captcha.CauseUsed)
	s := p.Stats().Providers[0]
	if s.Provider != "altcha" || s.Challenges != 1 || s.Solved != 1 || s.Refused[captcha.CauseUsed] != 1 || s.Unavailable != 0 {
		t.Errorf("%+v", s)
	}
}

// The same solution in other words is still used.
func TestUsedSolutionWrittenInAnotherWay(t *testing.T) {
	p := newProof(t)
	payload := solve(t, challengeOf(t, p, login))
	if err := p.Verify(t.Context(), encode(t, payload), login, nobody); err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{
		encode(t, map[string]any{"took": 7, "salt": payload.Salt, "number": payload.Number, "signature": payload.Signature, "challenge": payload.Challenge, "algorithm": "SHA-256"}),
		base64.StdEncoding.EncodeToString([]byte(" " + string(must(json.Marshal(payload))))),
	} {
		wantCause(t, p.Verify(t.Context(), token, login, nobody), captcha.CauseUsed)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// CVE-2023-45292: what is empty or unknown must not verify as something that was never asked.
func TestEmptyAnswerNeverVerifies(t *testing.T) {
	p := newProof(t)
	empty := func(change func(*altcha.Payload)) string {
		payload := solve(t, challengeOf(t, p, login))
		change(&payload)
		return encode(t, payload)
	}
	for name, token := range map[string]string{
		"nothing": "", "space": " ", "no base64": "%%%", "no JSON": base64.StdEncoding.EncodeToString([]byte("x")),
		"null": encode(t, nil), "list": encode(t, []int{}), "empty object": encode(t, map[string]any{}), "number": encode(t, 5),
		"algorithm": empty(func(p *altcha.Payload) { p.Algorithm = "" }),
		"salt":      empty(func(p *altcha.Payload) { p.Salt = "" }),
		"all but salt and algorithm": empty(func(p *altcha.Payload) {
			*p = altcha.Payload{Algorithm: p.Algorithm, Salt: p.Salt}
		}),
		"challenge": empty(func(p *altcha.Payload) { p.Challenge = "" }),
		"signature": empty(func(p *altcha.Payload) { p.Signature = "" }),
	} {
		if err := p.Verify(t.Context(), token, login, nobody); !errors.Is(err, captcha.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSolutionIsForItsBindingOnly(t *testing.T) {
	p := newProof(t)
	for name, b := range map[string]captcha.Binding{
		"purpose": {Purpose: "order", Subject: "ann"}, "subject": {Purpose: "login", Subject: "bob"}, "risk": {Purpose: "login", Subject: "ann", Risk: 1},
	} {
		t.Run(name, func(t *testing.T) {
			token := solved(t, p, login)
			wantCause(t, p.Verify(t.Context(), token, b, nobody), captcha.CauseForeign)
			// An attempt with another binding does not use it up.
			if err := p.Verify(t.Context(), token, login, nobody); err != nil {
				t.Error(err)
			}
		})
	}
	hard := captcha.Binding{Purpose: "login", Subject: "ann", Risk: 9}
	if err := p.Verify(t.Context(), solved(t, p, hard), hard, nobody); err != nil {
		t.Errorf("a risk above the highest: %v", err)
	}
	if err := p.Verify(t.Context(), solved(t, p, hard), login, nobody); err != nil {
		t.Errorf("a harder challenge than needed: %v", err)
	}
}

func TestChallengeExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		used := &memoryUsed{}
		p := newProof(t, func(o *captcha.ProofOfWorkOptions) { o.Lifetime, o.Used = time.Minute, used })
		in, late := solved(t, p, login), solved(t, p, login)
		time.Sleep(time.Minute)
		if err := p.Verify(t.Context(), in, login, nobody); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		wantCause(t, p.Verify(t.Context(), late, login, nobody), captcha.CauseExpired)
		for key, ttl := range used.keys {
			if ttl <= time.Minute {
				t.Errorf("%s is forgotten after %v, before the challenge has expired everywhere", key, ttl)
			}
		}
		if len(used.keys) != 1 {
			t.Errorf("%d keys: only what was good is kept", len(used.keys))
		}
	})
}

// While a setting is lowered, one process issues what another one accepts.
func TestUsedLongerThanTheLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		used := &memoryUsed{}
		before := newProof(t, func(o *captcha.ProofOfWorkOptions) { o.Lifetime, o.Used = time.Hour, used })
		after := newProof(t, func(o *captcha.ProofOfWorkOptions) { o.Lifetime, o.Used = time.Minute, used })
		if err := after.Verify(t.Context(), solved(t, before, login), login, nobody); err != nil {
			t.Fatal(err)
		}
		for key, ttl := range used.keys {
			if ttl < time.Hour+time.Minute { // a clock may be a minute behind
				t.Errorf("%s is forgotten after %v, before the challenge has expired everywhere", key, ttl)
			}
		}
		if len(used.keys) != 1 {
			t.Errorf("%d keys", len(used.keys))
		}
	})
}

// CVE-2025-68113 is the first two: digits of the number become the end of the expiry.
func TestTamperedSolutions(t *testing.T) {
	p := newProof(t, func(o *captcha.ProofOfWorkOptions) { o.MaxNumber = 100_000 })
	for name, tt := range map[string]struct {
		want   captcha.Cause
		tamper func(*altcha.Payload)
	}{
		"without the delimiter": {captcha.CauseMalformed, func(p *altcha.Payload) { p.Salt = strings.TrimSuffix(p.Salt, "&") }},
		"digits moved": {captcha.CauseMalformed, func(p *altcha.Payload) {
			digits := string(must(json.Marshal(p.Number)))
			p.Salt += digits[:1]
			p.Number = 0
		}},
		"expires":       {captcha.CauseWrong, func(p *altcha.Payload) { p.Salt = strings.Replace(p.Salt, "expires=1", "expires=9", 1) }},
		"expires twice": {captcha.CauseMalformed, func(p *altcha.Payload) { p.Salt = strings.Replace(p.Salt, "?", "?expires=99999999999&", 1) }},
		"purpose":       {captcha.CauseWrong, func(p *altcha.Payload) { p.Salt = strings.Replace(p.Salt, "p=login", "p=order", 1) }},
		"risk":          {captcha.CauseWrong, func(p *altcha.Payload) { p.Salt = strings.Replace(p.Salt, "r=0", "r=4", 1) }},
		"more":          {captcha.CauseMalformed, func(p *altcha.Payload) { p.Salt += "x=y&" }},
		"number":        {captcha.CauseWrong, func(p *altcha.Payload) { p.Number++ }},
		"negative":      {captcha.CauseMalformed, func(p *altcha.Payload) { p.Number = -1 }},
		"signature":     {captcha.CauseWrong, func(p *altcha.Payload) { p.Signature = strings.Repeat("0", 64) }},
		"upper case":    {captcha.CauseWrong, func(p *altcha.Payload) { p.Signature = strings.ToUpper(p.Signature) }},
		"algorithm":     {captcha.CauseMalformed, func(p *altcha.Payload) { p.Algorithm = "SHA-1" }},
	} {
		t.Run(name, func(t *testing.T) {
			payload := solve(t, challengeOf(t, p, login))
			tt.tamper(&payload)
			wantCause(t, p.Verify(t.Context(), encode(t, payload), login, nobody), tt.want)
		})
	}
}

// Challenges made by a client, however easy, are not signed with our key.
func TestChallengesOfOthers(t *testing.T) {
	p := newProof(t)
	other := newProof(t, func(o *captcha.ProofOfWorkOptions) { o.Secret = []byte("another secret of 16 bytes") })
	wantCause(t, p.Verify(t.Context(), solved(t, other, login), login, nobody), captcha.CauseWrong)

	zero := int64(0)
	c := must(altcha.CreateChallenge(altcha.ChallengeOptions{HMACKey: "", Number: &zero, Salt: challengeOf(t, p, login).Salt}))
	wantCause(t, p.Verify(t.Context(), encode(t, solve(t, c)), login, nobody), captcha.CauseWrong)
}

func TestTokenIsBounded(t *testing.T) {
	p := newProof(t)
	payload := solve(t, challengeOf(t, p, login))
	text := string(must(json.Marshal(payload)))
	padded := func(bytes int) string {
		return base64.StdEncoding.EncodeToString([]byte(text + strings.Repeat(" ", bytes-len(text))))
	}
	wantCause(t, p.Verify(t.Context(), padded(769), login, nobody), captcha.CauseMalformed) // 1,028 characters
	if err := p.Verify(t.Context(), padded(768), login, nobody); err != nil {               // 1,024
		t.Error(err)
	}
}

func TestRiskDoublesTheWork(t *testing.T) {
	p := newProof(t)
	for risk, want := range []int64{100, 200, 400, 800, 1600, 1600, 1600} {
		if c := challengeOf(t, p, captcha.Binding{Purpose: "login", Subject: "ann", Risk: risk}); c.MaxNumber != want {
			t.Errorf("risk %d: numbers up to %d, want %d", risk, c.MaxNumber, want)
		}
	}
}

func TestNobodyIsVerifiedWhileTheStoreIsAway(t *testing.T) {
	used := &memoryUsed{err: errors.New("away")}
	p := newProof(t, func(o *captcha.ProofOfWorkOptions) { o.Used = used })
	token := solved(t, p, login)
	if err := p.Verify(t.Context(), token, login, nobody); !errors.Is(err, captcha.ErrUnavailable) || !errors.Is(err, used.err) {
		t.Errorf("%v", err)
	}
	used.err = nil
	if err := p.Verify(t.Context(), token, login, nobody); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if s := p.Stats().Providers[0]; s.Unavailable != 1 {
		t.Errorf("%+v", s)
	}
}

func TestInvalidBindings(t *testing.T) {
	p := newProof(t)
	for _, b := range []captcha.Binding{
		{},
		{Purpose: "login"},
		{Subject: "ann"},
		{Purpose: "Login", Subject: "ann"},
		{Purpose: "a&b=c", Subject: "ann"},
		{Purpose: strings.Repeat("a", 33), Subject: "ann"},
		{Purpose: "login", Subject: strings.Repeat("a", 65)},
		{Purpose: "login", Subject: "ann", Risk: -1},
	} {
		if _, err := p.Challenge(t.Context(), b); !errors.Is(err, captcha.ErrInvalidBinding) {
			t.Errorf("%+v: %v", b, err)
		}
		if err := p.Verify(t.Context(), "x", b, nobody); !errors.Is(err, captcha.ErrInvalidBinding) {
			t.Errorf("%+v: %v", b, err)
		}
	}
}

func TestProofOfWorkOptions(t *testing.T) {
	right := captcha.ProofOfWorkOptions{Secret: secret, Used: &memoryUsed{}}
	for name, change := range map[string]func(*captcha.ProofOfWorkOptions){
		"no secret": func(o *captcha.ProofOfWorkOptions) { o.Secret = nil },
		"short":     func(o *captcha.ProofOfWorkOptions) { o.Secret = secret[:15] },
		"no store":  func(o *captcha.ProofOfWorkOptions) { o.Used = nil },
		"negative":  func(o *captcha.ProofOfWorkOptions) { o.Lifetime = -1 },
		"long":      func(o *captcha.ProofOfWorkOptions) { o.Lifetime = 2 * time.Hour },
		"easy":      func(o *captcha.ProofOfWorkOptions) { o.MaxNumber = -1 },
		"hard":      func(o *captcha.ProofOfWorkOptions) { o.MaxNumber = captcha.MaxNumber + 1 },
	} {
		o := right
		change(&o)
		if _, err := captcha.NewProofOfWork(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := captcha.NewProofOfWork(right); err != nil {
		t.Error(err)
	}
}

func FuzzSolution(f *testing.F) {
	p := newProof(f)
	f.Add("")
	f.Add(encode(f, altcha.Payload{Algorithm: "SHA-256"}))
	f.Add(encode(f, solve(f, challengeOf(f, p, captcha.Binding{Purpose: "order", Subject: "ann"}))))
	f.Fuzz(func(t *testing.T, token string) {
		if err := p.Verify(t.Context(), token, login, nobody); !errors.Is(err, captcha.ErrRefused) {
			t.Errorf("%q: %v", token, err)
		}
	})
}
