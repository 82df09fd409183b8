package httpapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/captcha"
)

// contextLife is how long a caller may take to fetch the challenge that an answer named.
const contextLife = 10 * time.Minute

// A challengeContext is what the challenge that an answer names is for. It is in the url, signed, because whoever fetches the challenge need not
// look like whoever got the answer: a shop's back end asks about a login, and a browser solves. It tells nothing but what it opens.
type challengeContext struct {
	Purpose string `json:"p"`
	Subject string `json:"s"`
	Risk    int    `json:"r,omitempty"`
	Expires int64  `json:"e"` // Unix seconds
}

const contextUse = "captcha context"

// sealContext writes b down for openContext.
func (a *API) sealContext(b captcha.Binding) string {
	return a.seal(contextUse, challengeContext{b.Purpose, b.Subject, b.Risk, time.Now().Add(contextLife).Unix()})
}

// openContext is the reverse of sealContext. Its error says what is wrong, to a caller.
func (a *API) openContext(text string) (b captcha.Binding, err error) {
	var c challengeContext
	if a.unseal(contextUse, text, &c) == nil {
		return b, errors.New("is not what an answer gave")
	}
	if time.Now().Unix() > c.Expires {
		return b, errors.New("has expired; ask again for what it was needed for")
	}
	return captcha.Binding{Purpose: c.Purpose, Subject: c.Subject, Risk: c.Risk}, nil
}

// seal writes v, which is of texts and numbers, so that callers can read it and not change it. use keeps what is sealed for one use from
// being taken for another.
func (a *API) seal(use string, v any) string {
	text, _ := json.Marshal(v) // cannot fail
	return sealed(a.keys[0], use, base64.RawURLEncoding.EncodeToString(text))
}

// unseal is the reverse of seal. It returns the key that sealed the text, or nil if none did.
func (a *API) unseal(use, text string, into any) (by []byte) {
	payload, _, _ := strings.Cut(text, ".")
	i := slices.IndexFunc(a.keys, func(key []byte) bool { return hmac.Equal([]byte(text), []byte(sealed(key, use, payload))) })
	if i < 0 {
		return nil
	}
	written, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil || json.Unmarshal(written, into) != nil {
		return nil // although it is signed: by another version
	}
	return a.keys[i]
}

func sealed(key []byte, use, payload string) string {
	return payload + "." + keyedHash(key, use, payload)
}

// ownKey is this package's own key of a secret that others use as well: what is signed here means nothing elsewhere.
func ownKey(secret []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("tidegate http"))
	return h.Sum(nil)
}

// keyedHash is a hash of values that nobody without the key can make; use keeps those of one use apart from all others.
func keyedHash(key []byte, use string, values ...string) string {
	h := hmac.New(sha256.New, key)
	fmt.Fprintf(h, "%s %q", use, values)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}
