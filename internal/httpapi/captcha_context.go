package httpapi

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/keyhash"
)

// contextLife is how long the url of a challenge is valid.
const contextLife = 10 * time.Minute

// A challengeContext is what a challenge is for. It is part of the challenge's url, signed, because the client that fetches the
// challenge may differ from the one that got the url: a shop's back end asks about a login, and a browser solves the challenge.
// It contains nothing else.
type challengeContext struct {
	Purpose string `json:"p"`
	Subject string `json:"s"`
	Risk    int    `json:"r,omitempty"`
	Expires int64  `json:"e"` // Unix seconds
}

const contextUse = "captcha context"

// sealContext encodes b for openContext.
func (a *API) sealContext(b captcha.Binding) string {
	return a.seal(contextUse, challengeContext{b.Purpose, b.Subject, b.Risk, time.Now().Add(contextLife).Unix()})
}

// openContext is the reverse of sealContext. Its error is meant for the caller of the API.
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

// seal encodes and signs v, which consists of texts and numbers: callers can read it, but not change it. use keeps values that
// are sealed for one purpose from being accepted for another.
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
		return nil // signed, but by a version with another format
	}
	return a.keys[i]
}

func sealed(key []byte, use, payload string) string {
	return payload + "." + keyedHash(key, use, payload)
}

// ownKey derives this package's key from a secret that other packages use too, so signatures of this package are not valid
// elsewhere.
func ownKey(secret []byte) []byte { return keyhash.Derive(secret, "tidegate http") }

// keyedHash is an HMAC of values; use keeps the hashes of one purpose apart from all others.
func keyedHash(key []byte, use string, values ...string) string {
	return keyhash.MAC(key, fmt.Sprintf("%s %q", use, values)).String()
}
