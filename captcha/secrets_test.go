package captcha_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/tidegate/tidegate/captcha"
)

// with makes a provider with the given secrets over the shared record of used solutions.
func with(t testing.TB, used captcha.Used, secret, previous string) *captcha.ProofOfWork {
	t.Helper()
	return newProof(t, func(o *captcha.ProofOfWorkOptions) {
		o.Used, o.Secret, o.PreviousSecret = used, []byte(secret), []byte(previous)
	})
}

// ann's subject is a hash under the secret as well.
func TestChallengeOutlivesItsSecret(t *testing.T) {
	const older, newer, foreign = "the secret before the change", "the secret after the change.", "a secret of somebody else..."
	old := captcha.Binding{Purpose: "login", Subject: "ann, before"}
	ann := captcha.Binding{Purpose: "login", Subject: "ann, after", PreviousSubject: "ann, before"}
	rdb := redisServers["redis"](t)
	t.Cleanup(func() { rdb.Close() })
	used := must(captcha.NewRedisUsed(rdb, "t-"+uuid.NewString()))
	before, while := with(t, used, older, ""), with(t, used, newer, older)
	after, mistaken := with(t, used, newer, ""), with(t, used, newer, foreign)
	token := solved(t, before, old)
	for _, p := range []*captcha.ProofOfWork{after, mistaken} {
		wantCause(t, p.Verify(t.Context(), token, ann, nobody), captcha.CauseWrong)
	}
	wantCause(t, while.Verify(t.Context(), token, captcha.Binding{Purpose: "login", Subject: "bob, after", PreviousSubject: "bob, before"}, nobody), captcha.CauseForeign)
	if err := while.Verify(t.Context(), token, ann, nobody); err != nil {
		t.Error(err)
	}
	for _, p := range []*captcha.ProofOfWork{before, while} {
		wantCause(t, p.Verify(t.Context(), token, old, nobody), captcha.CauseUsed)
	}
	// The answer that named the challenge was an older process's, and the challenge is not.
	if err := while.Verify(t.Context(), solved(t, while, old), ann, nobody); err != nil {
		t.Error(err)
	}
	// Nothing is made with the previous secret, and for the previous subject.
	if err := after.Verify(t.Context(), solved(t, while, ann), captcha.Binding{Purpose: "login", Subject: "ann, after"}, nobody); err != nil {
		t.Error(err)
	}
	if _, err := captcha.NewProofOfWork(captcha.ProofOfWorkOptions{Secret: secret, PreviousSecret: []byte("short"), Used: &memoryUsed{}}); err == nil {
		t.Error("a short secret was taken")
	}
}

// A provider's own tokens name the subject that the page was given.
func TestTokenOutlivesTheSubjectsHash(t *testing.T) {
	h := serveTheirs(t)
	v := newSite(t, h)
	h.saysJSON(yes(described(t, v, captcha.Binding{Purpose: "login", Subject: "ann, before"})))
	wantCause(t, v.Verify(t.Context(), "token", captcha.Binding{Purpose: "login", Subject: "ann, after"}, nobody), captcha.CauseForeign)
	if err := v.Verify(t.Context(), "token", captcha.Binding{Purpose: "login", Subject: "ann, after", PreviousSubject: "ann, before"}, nobody); err != nil {
		t.Error(err)
	}
}
