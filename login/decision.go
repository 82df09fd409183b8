package login

import (
	"net/netip"
	"time"

	"github.com/tidegate/tidegate/captcha"
)

// An Attempt is an attempt to log in.
type Attempt struct {
	Name string // as typed; required, at most 256 bytes
	// IP is the address of the client, after trusted proxies have been resolved. Required. Of an IPv6 address the first 64 bits count.
	IP netip.Addr
	// Device is the device token from an earlier success, or empty. An invalid token is ignored.
	Device string
	// Factor is the factor that is checked: password, otp, reset. Each has separate counters. Empty means Password.
	Factor string
	// Captcha is a solution of the challenge that the last decision demanded, or empty. Only Reserve uses it.
	Captcha string
	// ID is an idempotency key: within a minute the same ID of the same attempt is counted once and gets the same answer. Empty, or 1 to
	// 255 bytes. Generate one for each submitted form, and never take it from the client: a client that chooses it could guess for a
	// minute with one attempt.
	ID string
}

// Action is what to do with an attempt. It is a closed set; the same word is used in the rules file, JSON, metrics and logs.
type Action string

// The actions, the weakest first. Ban and Revoke are actions of a Step, and never of a Decision.
const (
	Allow     Action = "allow"     // check the password, and settle
	Challenge Action = "challenge" // ask again with the solution of a CAPTCHA
	Delay     Action = "delay"     // wait for RetryAfter, and ask again
	Deny      Action = "deny"      // do not check the password
	Ban       Action = "ban"       // ban the address, or the network, for all requests
	Revoke    Action = "revoke"    // invalidate the device token
)

var actionWords = [...]Action{allow: Allow, challenge: Challenge, delay: Delay, deny: Deny}

// Reason is why an attempt was not allowed. It is for operators only: clients must not learn which counter decided. It is a closed set.
type Reason string

// The reasons other than those of rules, which are the rule's count followed by "_failures".
const (
	ReasonInFlight       Reason = "in_flight"       // the pending attempts use up the remaining ones
	ReasonBanned         Reason = "banned"          // the name or the address is banned
	ReasonCaptchaRefused Reason = "captcha_refused" // the solution was refused
	// ReasonTooManySolutions: the address has sent too many solutions; further ones are not verified for a while.
	ReasonTooManySolutions Reason = "too_many_solutions"
)

func reasonOf(r *rule) Reason {
	if r.distinct {
		return Reason(r.Count)
	}
	return Reason(r.Count) + "_failures"
}

// A Decision is the answer to an attempt. It is a plain value.
type Decision struct {
	Action     Action
	Reason     Reason        // empty: allowed
	Rule       string        // the rule that decided, or empty
	RetryAfter time.Duration // Delay, Deny: when to try again. Challenge: until none is required. 0: unknown
	// ID identifies the reserved attempt. Empty: none was reserved.
	ID string
	// Challenge is the binding for the solution of a challenge.
	Challenge captcha.Binding
	// Shadow is the shadow rule that would have acted, or empty.
	Shadow string
	// Degraded: the store was unavailable, and this process decided by its own counts and half the limits.
	Degraded bool
}
