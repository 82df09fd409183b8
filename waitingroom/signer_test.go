package waitingroom_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/waitingroom"
)

// must returns a function that returns its first argument, and fails the test with the second.
func must[K any](t *testing.T) func(K, error) K {
	return func(made K, err error) K {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
}

func inPEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// TestParseSigner: keys that are good for passes, and what is said of others, without their text.
func TestParseSigner(t *testing.T) {
	big, small := must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 2048)), must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 1024))
	curve, edwards := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	pkcs8 := func(key any) string { return inPEM("PRIVATE KEY", must[[]byte](t)(x509.MarshalPKCS8PrivateKey(key))) }
	for name, tt := range map[string]struct{ text, wrong string }{
		"RSA": {pkcs8(big), ""}, "RSA in PKCS #1": {inPEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(big)), ""}, "Ed25519": {pkcs8(edwards), ""},
		"text before": {"Bag Attributes\n" + pkcs8(big), ""},
		"empty":       {"", "no PEM block: it must hold one private key"},
		"no PEM":      {"secret-text", "no PEM block"},
		"small":       {pkcs8(small), "an RSA key must have at least 2048 bits, got 1024"},
		"a curve":     {pkcs8(curve), "must be of RSA or Ed25519, got *ecdsa.PrivateKey"},
		"public":      {inPEM("PUBLIC KEY", []byte("x")), `a PEM block of type "PUBLIC KEY"`},
		"encrypted":   {inPEM("ENCRYPTED PRIVATE KEY", []byte("x")), "the key is encrypted"},
		"two":         {pkcs8(big) + pkcs8(edwards), "more than one PEM block"},
		"broken":      {inPEM("PRIVATE KEY", []byte("secret-text")), "the private key cannot be read"},
	} {
		key, err := waitingroom.ParseSigner([]byte(tt.text))
		switch {
		case tt.wrong == "" && (err != nil || key == nil):
			t.Errorf("%s: %v", name, err)
		case tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong) || strings.Contains(err.Error(), "secret-text")):
			t.Errorf("%s: %v, want %s", name, err, tt.wrong)
		}
	}
}

// TestPassesAreOfTheSignersKey: a service accepts what its own key signed, and nothing of another one, whatever the algorithm.
func TestPassesAreOfTheSignersKey(t *testing.T) {
	key := must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 2048))
	service := func(key crypto.Signer) *waitingroom.Service {
		return waitingroom.New(nil, waitingroom.Options{Secret: []byte("0123456789abcdef0123456789abcdef"), Signer: key})
	}
	now := time.Now()
	p := waitingroom.Place{Room: name, State: waitingroom.StateAdmitted, Number: 1, Position: 1, User: "ann", Token: "token", AdmittedAt: now, PassUntil: now.Add(time.Minute)}
	services := map[string]*waitingroom.Service{"RS256": service(key), "EdDSA": service(nil)}
	for signed, by := range services {
		pass, tokens := must[string](t)(by.Pass(p)), must[waitingroom.Tokens](t)(by.Tokens(p, waitingroom.TokenOptions{}))
		if k := by.PublicKeys().Keys; len(k) != 1 || k[0].Algorithm != signed || !k[0].IsPublic() || !k[0].Valid() {
			t.Errorf("%+v", k)
		}
		for verified, s := range services {
			for what, text := range map[string]string{"pass": pass, "access": tokens.Access} {
				claims, err := s.VerifyPass(name, text, now)
				if (err == nil) != (signed == verified) || err == nil && claims.Account() != "ann" {
					t.Errorf("%s of %s at %s: %v, %+v", what, signed, verified, err, claims)
				}
			}
		}
		for what, text := range map[string]string{"refresh": tokens.Refresh, "id": tokens.ID} {
			if _, err := by.VerifyPass(name, text, now); err == nil {
				t.Errorf("%s is a pass", what)
			}
		}
	}
	foreign := must[waitingroom.Tokens](t)(services["RS256"].Tokens(p, waitingroom.TokenOptions{Issuer: "https://op.example"}))
	if _, err := services["RS256"].VerifyPass(name, foreign.Access, now); err == nil {
		t.Error("a token of another issuer is a pass")
	}
}

// While a secret or a key is changed, the passes of both are accepted, both public keys are published, and the current one signs.
func TestPassesSurviveAChangeOfTheKey(t *testing.T) {
	older, newer := make([]byte, 32), []byte("0123456789abcdef0123456789abcdef")
	first, second := must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 2048)), must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 2048))
	now := time.Now()
	p := waitingroom.Place{Room: name, State: waitingroom.StateAdmitted, Number: 1, Position: 1, User: "ann", Token: "token", AdmittedAt: now, PassUntil: now.Add(time.Minute)}
	for what, opts := range map[string][3]waitingroom.Options{ // before, meanwhile, and of somebody else
		"secret": {{Secret: older}, {Secret: newer, PreviousSecret: older}, {Secret: newer, PreviousSecret: []byte("another secret of at least 32 bytes")}},
		"RSA":    {{Secret: newer, Signer: first}, {Secret: newer, Signer: second, PreviousSigner: first}, {Secret: newer, PreviousSecret: older, Signer: second}},
		"kind":   {{Secret: newer, Signer: ed25519.NewKeyFromSeed(older)}, {Secret: newer, Signer: second, PreviousSigner: ed25519.NewKeyFromSeed(older)}, {Secret: newer, PreviousSigner: second}},
	} {
		before, meanwhile, other := waitingroom.New(nil, opts[0]), waitingroom.New(nil, opts[1]), waitingroom.New(nil, opts[2])
		for _, pass := range []string{must[string](t)(before.Pass(p)), must[waitingroom.Tokens](t)(before.Tokens(p, waitingroom.TokenOptions{})).Access} {
			if claims, err := meanwhile.VerifyPass(name, pass, now); err != nil || claims.Account() != "ann" {
				t.Errorf("%s: %+v, %v", what, claims, err)
			}
			if _, err := other.VerifyPass(name, pass, now); err == nil {
				t.Errorf("%s: accepted without the key", what)
			}
		}
		if _, err := before.VerifyPass(name, must[string](t)(meanwhile.Pass(p)), now); err == nil {
			t.Errorf("%s: the previous key signs", what)
		}
		was, is := before.PublicKeys().Keys, meanwhile.PublicKeys().Keys
		if len(was) != 1 || len(is) != 2 || is[1].KeyID != was[0].KeyID || is[0].KeyID == is[1].KeyID || !is[1].IsPublic() {
			t.Errorf("%s: %+v, %+v", what, was, is)
		}
	}
}

// A pass is valid at once where the clock is behind the database's, and nowhere longer than it says.
func TestAPassAndOtherClocks(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.standAlone(1)
		h.join("ann")
		h.later(time.Second)
		p, err := h.rooms.Claim(t.Context(), name, user("ann"))
		if err != nil {
			t.Fatal(err)
		}
		pass, admitted := must[string](t)(h.rooms.Pass(p)), p.AdmittedAt.Truncate(time.Second) // in a pass
		for after, valid := range map[time.Duration]bool{
			-31 * time.Second: false, -29 * time.Second: true, 0: true, p.PassUntil.Sub(admitted) - time.Second: true, p.PassUntil.Sub(admitted) + time.Second: false,
		} {
			if _, err := h.rooms.VerifyPass(name, pass, admitted.Add(after)); (err == nil) != valid {
				t.Errorf("%v after it was given: %v", after, err)
			}
		}
	})
}

// A pass that was given up is refused by every process at its next tick, and one that the visitor gets later is not.
func TestAPassThatWasGivenUp(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.standAlone(2)
		h.join("ann", "bob")
		h.later(time.Second)
		other := h.process()
		refresh := func() {
			t.Helper()
			if err := other.SetClock(t.Context(), h.at); err != nil {
				t.Fatal(err)
			}
		}
		passes := map[string]string{}
		claim := func(who string) {
			t.Helper()
			p, err := h.rooms.Claim(t.Context(), name, user(who))
			if err != nil {
				t.Fatal(err)
			}
			passes[who], passes[who+" of AWS"] = must[string](t)(h.rooms.Pass(p)), must[waitingroom.Tokens](t)(h.rooms.Tokens(p, waitingroom.TokenOptions{})).Access
		}
		check := func(when string, valid map[string]bool) {
			t.Helper()
			for _, rooms := range []*waitingroom.Service{h.rooms, other} {
				for what, pass := range passes {
					if _, err := rooms.VerifyPass(name, pass, h.at); (err == nil) != valid[what] {
						t.Errorf("%s, the pass %s: %v", when, what, err)
					}
				}
			}
		}
		claim("ann")
		claim("bob")
		refresh()
		check("at first", map[string]bool{"ann": true, "ann of AWS": true, "bob": true, "bob of AWS": true})
		if err := h.rooms.Leave(t.Context(), name, user("ann")); err != nil {
			t.Fatal(err)
		}
		refresh()
		check("ann left", map[string]bool{"bob": true, "bob of AWS": true})
		if n := other.GivenUp(name); n != 1 {
			t.Errorf("%d passes are remembered", n)
		}
		passes["old"] = passes["ann"]
		h.join("ann")
		h.later(time.Second)
		claim("ann")
		refresh()
		check("ann came again", map[string]bool{"ann": true, "ann of AWS": true, "bob": true, "bob of AWS": true})
		if _, err := h.rooms.Finish(t.Context(), name, user("bob")); err != nil {
			t.Fatal(err)
		}
		refresh()
		check("bob has finished", map[string]bool{"ann": true, "ann of AWS": true})
		h.later(70 * time.Second)
		refresh()
		if n := other.GivenUp(name); n != 0 {
			t.Errorf("%d passes are remembered after their end", n)
		}
	})
}
