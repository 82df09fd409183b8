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
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/tidegate/tidegate/internal/dialects"
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
		pass, tokens := must[string](t)(by.Pass(p)), must[dialects.Tokens](t)(by.ForDialects().Tokens(p, "", 0))
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
	foreign := must[dialects.Tokens](t)(services["RS256"].ForDialects().Tokens(p, "https://op.example", 0))
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
		for _, pass := range []string{must[string](t)(before.Pass(p)), must[dialects.Tokens](t)(before.ForDialects().Tokens(p, "", 0)).Access} {
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
		p, err := outcome(h.rooms.Claim(t.Context(), name, user("ann")))
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
			p, err := outcome(h.rooms.Claim(t.Context(), name, user(who)))
			if err != nil {
				t.Fatal(err)
			}
			passes[who], passes[who+" of AWS"] = must[string](t)(h.rooms.Pass(p)), must[dialects.Tokens](t)(h.rooms.ForDialects().Tokens(p, "", 0)).Access
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
		if _, err := outcome(h.rooms.Finish(t.Context(), name, user("bob"))); err != nil {
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

// TestKindsOfSignedTexts: nothing but a pass is taken for one, and a receipt has an audience, a type and a key of its own.
func TestKindsOfSignedTexts(t *testing.T) {
	const typePass, typeReceipt = "tidegate-pass+jwt", "tidegate-receipt+jwt"
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	opts := waitingroom.Options{Secret: []byte("0123456789abcdef0123456789abcdef"), Signer: key}
	s, now := waitingroom.New(nil, opts), time.Now()
	passKey, receiptKey := s.PublicKeys().Keys[0], s.ReceiptKeys().Keys[0]
	if passKey.KeyID == receiptKey.KeyID || len(s.PublicKeys().Keys) != 1 || len(s.ReceiptKeys().Keys) != 1 || !receiptKey.IsPublic() {
		t.Errorf("%+v, %+v", s.PublicKeys(), s.ReceiptKeys())
	}
	sign := func(typ string, claims map[string]any) string {
		signer := must[jose.Signer](t)(jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: key, KeyID: passKey.KeyID}}, (&jose.SignerOptions{}).WithType(jose.ContentType(typ))))
		return must[string](t)(jwt.Signed(signer).Claims(claims).Serialize())
	}
	pass := map[string]any{"iss": "tidegate", "aud": name, "sub": "ann", "jti": name + "/1", "token_use": "access", "exp": now.Add(time.Minute).Unix()}
	changed := func(claim string, value any) map[string]any {
		c := maps.Clone(pass)
		if c[claim] = value; value == nil {
			delete(c, claim)
		}
		return c
	}
	oldReceipt := sign("JWT", map[string]any{"token_use": "receipt", "aud": name, "index": 0, "subject": "x", "joined_ms": 1, "leaf": "00"})
	for what, tt := range map[string]struct {
		text string
		ok   bool
	}{
		"pass":                          {sign(typePass, pass), true},
		"pass of the release before":    {sign("JWT", pass), true},
		"receipt of the release before": {oldReceipt, false},
		"receipt that claims to be one": {sign(typeReceipt, pass), false},
		"pass with another use":         {sign(typePass, changed("token_use", "receipt")), false},
		"no type":                       {sign("", pass), false},
		"type of a refresh token":       {sign("tidegate-refresh+jwt", pass), false},
		"type in another spelling":      {sign("Tidegate-Pass+JWT", pass), false},
		"no expiry":                     {sign(typePass, changed("exp", nil)), false},
		"no issuer":                     {sign(typePass, changed("iss", nil)), false},
		"no audience":                   {sign(typePass, changed("aud", nil)), false},
		"audience of receipts":          {sign(typePass, changed("aud", name+"/receipt")), false},
	} {
		if _, err := s.VerifyPass(name, tt.text, now); (err == nil) != tt.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := verifiedBy(s.PublicKeys(), oldReceipt); err != nil {
		t.Errorf("a receipt of the release before: %v", err)
	}

	each(t, func(t *testing.T, h *house) {
		h.open(func(d *waitingroom.Definition) {
			d.Mode, d.StartsAt = waitingroom.ModeDraw, time.Now().Add(time.Minute)
		})
		receipt := h.joined("ann").Receipt
		if claims, err := verifiedBy(h.rooms.ReceiptKeys(), receipt); err != nil || claims["aud"] != name+"/receipt" || claims["token_use"] != "receipt" || claims["typ"] != typeReceipt {
			t.Errorf("%s: %v, %v", receipt, claims, err)
		}
		if _, err := verifiedBy(h.rooms.PublicKeys(), receipt); err == nil {
			t.Error("a receipt is signed with a key of passes")
		}
		for _, room := range []string{name, name + "/receipt"} {
			if _, err := h.rooms.VerifyPass(room, receipt, h.at); err == nil {
				t.Errorf("a receipt is a pass of %s", room)
			}
		}
	})
}

// verifiedBy returns the claims of a text, with its typ, if a key of the set has signed it.
func verifiedBy(set jose.JSONWebKeySet, text string) (claims map[string]any, err error) {
	token, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		return nil, err
	}
	if err = token.Claims(set, &claims); err == nil {
		claims["typ"] = token.Headers[0].ExtraHeaders[jose.HeaderType]
	}
	return claims, err
}

// TestAPassOfADroppedSecret: a token of Tokens names its place by a text of the secret. When the secret is dropped and the key of passes stays,
// it is unknown whether the place was given up, so the token is refused. Passes, which have the number, go on.
func TestAPassOfADroppedSecret(t *testing.T) {
	key := must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 2048))
	newer := []byte("a newer secret of thirty-two bytes")
	each(t, func(t *testing.T, h *house) {
		h.standAlone(2)
		before := waitingroom.New(h.store, waitingroom.Options{Secret: secret, Signer: key})
		verifiers := map[string]*waitingroom.Service{
			"changing": waitingroom.New(h.store, waitingroom.Options{Secret: newer, PreviousSecret: secret, Signer: key}),
			"dropped":  waitingroom.New(h.store, waitingroom.Options{Secret: newer, Signer: key}),
		}
		h.join("ann")
		h.later(time.Second)
		p, err := outcome(h.rooms.Claim(t.Context(), name, user("ann")))
		if err != nil {
			t.Fatal(err)
		}
		texts := map[string]string{"pass": must[string](t)(before.Pass(p)), "token": must[dialects.Tokens](t)(before.ForDialects().Tokens(p, "", 0)).Access}
		check := func(when string, valid map[string]bool) {
			t.Helper()
			for what, text := range texts {
				for where, s := range verifiers {
					if err := s.SetClock(t.Context(), h.at); err != nil {
						t.Fatal(err)
					}
					if _, err := s.VerifyPass(name, text, h.at); (err == nil) != valid[what+" "+where] {
						t.Errorf("%s, the %s where the secret is %s: %v", when, what, where, err)
					}
				}
			}
		}
		check("at first", map[string]bool{"pass changing": true, "token changing": true, "pass dropped": true})
		if err := h.rooms.Leave(t.Context(), name, user("ann")); err != nil {
			t.Fatal(err)
		}
		check("given up", nil)
	})
}

// TestOneSpellingOfAToken: a token in another spelling of base64 is none.
func TestOneSpellingOfAToken(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(d *waitingroom.Definition) { d.Sale, d.Item, d.Capacity, d.RequiresUser = "", "", 10, false })
		stranger, err := outcome(h.rooms.Join(t.Context(), name, waitingroom.Visitor{}, 1))
		if err != nil {
			t.Fatal(err)
		}
		token, others := stranger.Token, []string{}
		for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
			others = append(others, token[:len(token)-1]+string(c))
		}
		others = append(others, token+"\n", token[:9]+"\r\n"+token[9:], token+"=", token+"A", token+"AA")
		for _, text := range others {
			if _, err := h.rooms.Place(t.Context(), name, waitingroom.Visitor{Token: text}); (err == nil) != (text == token) {
				t.Errorf("%q: %v, where the token is %q", text, err, token)
			}
		}
	})
}

// TestPassOfAUserNamedLikeAPlace: the pass of a user is never one of somebody unknown, which anybody may use.
func TestPassOfAUserNamedLikeAPlace(t *testing.T) {
	s := waitingroom.New(nil, waitingroom.Options{Secret: []byte("0123456789abcdef0123456789abcdef")})
	for _, user := range []string{"", "ann", name + "/1", name + "/2"} {
		now := time.Now()
		pass := must[string](t)(s.Pass(waitingroom.Place{Room: name, State: waitingroom.StateAdmitted, Number: 1, Position: 1, User: user, AdmittedAt: now, PassUntil: now.Add(time.Minute)}))
		if claims, err := s.VerifyPass(name, pass, now); err != nil || claims.Account() != user {
			t.Errorf("%q: %q, %v", user, claims.Account(), err)
		}
	}
}
