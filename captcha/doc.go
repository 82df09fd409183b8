// Package captcha lets callers prove to be human, or at least to pay for what they ask: a proof of work that needs nobody else
// (ALTCHA), or one of Turnstile, hCaptcha and reCAPTCHA.
//
// A Provider makes challenges and verifies solutions. Both are tied to a Binding: what the solution opens, and for whom.
//
//	Challenge(binding) ─ solved in the browser ─ Verify(token, the same binding) ─ nil: let one request in
//
// # Invariants
//
//   - A solution opens one thing once: its use is marked in a store that all processes share, atomically, before Verify returns nil.
//   - A solution is good for the purpose and the subject that its challenge was made for, as far as the provider can tell: see NewSiteVerify.
//   - Nothing that the client says about a challenge is believed: purpose, subject, risk and expiry are signed with it.
//   - Who cannot be verified has not solved anything. A store or a provider that is away gives ErrUnavailable.
//
// # What a proof of work is
//
// A price, not a proof. A browser makes some 50,000 attempts a second on two processors: a quarter of a second at risk 0, four at the
// highest, eight with bad luck. A solver written for the purpose makes a hundred times as many on the same machine. So a proof of work
// belongs behind a limit that a person seldom meets, and the limits behind it stay. Risk raises the price.
//
// # When Redis loses its memory
//
// Solutions that were used may be used once more until their challenge expires. Nothing else is kept.
package captcha
