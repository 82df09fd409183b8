package login

import (
	"net/netip"
	"time"

	"github.com/tidegate/tidegate/captcha"
)

// An Attempt is somebody who wants to log in.
type Attempt struct {
	Name string // as it was typed; required, at most 256 bytes
	// IP is the address of the client, after trusted proxies have been resolved. Required. Of an IPv6 address the first 64 bits count.
	IP netip.Addr
	// Device is the token that an earlier success gave this client, or empty. One that is worth nothing is like none.
	Device string
	// Factor is what is tried: password, otp, reset; each has counters of its own. Empty means Password.
	Factor string
	// Captcha is a solution of the challenge that the last decision asked for, or empty. Only Reserve looks at it.
	Captcha string
	// ID makes a resend harmless: within a minute the same ID of the same attempt is counted once and gets the same answer. Empty, or 1 to 255
	// bytes. Make a new one for each submitted form, and never take it from the client: whoever chooses it could guess a minute long with one
	// attempt.
	ID string
}

// Action is what to do with an attempt. Closed set; the same word stands in JSON, metrics and logs.
type Action string

// The actions, the weakest first.
const (
	Allow     Action = "allow"     // check the password, and settle
	Challenge Action = "challenge" // ask again with the solution of a CAPTCHA
	Delay     Action = "delay"     // wait for RetryAfter, and ask again
	Deny      Action = "deny"      // do not check the password
)

var actionWords = [...]Action{allow: Allow, challenge: Challenge, delay: Delay, deny: Deny}

// Reason is why an attempt was not allowed, for operators: whoever tries to log in must not learn which counter it was. Closed set.
type Reason string

// The reasons, beside those of rules: what they count, and "_failures".
const (
	ReasonInFlight       Reason = "in_flight"       // as many attempts as are left are under way
	ReasonBanned         Reason = "banned"          // the address is
	ReasonCaptchaRefused Reason = "captcha_refused" // the solution was none
	// ReasonTooManySolutions: the address has sent so many that no more are looked at for a while.
	ReasonTooManySolutions Reason = "too_many_solutions"
)

func reasonOf(r *rule) Reason {
	if r.distinct {
		return Reason(r.Count)
	}
	return Reason(r.Count) + "_failures"
}

// A Decision says whether an attempt may go on. It is a plain value.
type Decision struct {
	Action     Action
	Reason     Reason        // empty: allowed
	Rule       string        // that decided, or empty
	RetryAfter time.Duration // Delay, Deny: when to ask again. Challenge: until none is needed. 0: nobody knows
	// ID names the attempt that was reserved. Empty: none was.
	ID string
	// Challenge is what the solution of a challenge has to be bound to.
	Challenge captcha.Binding
	// Shadow is the rule in shadow that would have acted, or empty.
	Shadow string
	// Degraded: the store was away, and this process decided by its own counts and half the limits.
	Degraded bool
}
