package challenge

import (
	"errors"
	"time"

	"github.com/tidegate/tidegate/captcha"
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
func (h *Handlers) sealContext(b captcha.Binding) string {
	return h.Keys.Seal(contextUse, challengeContext{b.Purpose, b.Subject, b.Risk, time.Now().Add(contextLife).Unix()})
}

// openContext is the reverse of sealContext. Its error is meant for the caller of the API.
func (h *Handlers) openContext(text string) (b captcha.Binding, err error) {
	var c challengeContext
	if h.Keys.Open(contextUse, text, &c) == nil {
		return b, errors.New("must be copied from the url of a challenge")
	}
	if time.Now().Unix() > c.Expires {
		return b, errors.New("has expired; repeat the request that was refused to get a new one")
	}
	return captcha.Binding{Purpose: c.Purpose, Subject: c.Subject, Risk: c.Risk}, nil
}
