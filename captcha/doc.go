// Package captcha verifies that callers have solved a CAPTCHA: a self-hosted proof of work (ALTCHA), or a challenge of Turnstile,
// hCaptcha or reCAPTCHA.
//
//	provider, err := captcha.NewProofOfWork(captcha.ProofOfWorkOptions{Secret: secret, Used: used})
//	order := captcha.Binding{Purpose: "order", Subject: user}
//	challenge, err := provider.Challenge(ctx, order) // challenge.JSON is for the widget in the browser
//	err = provider.Verify(ctx, token, order, ip)     // nil: admit one request
//
// # Model
//
// A Provider makes challenges and verifies solutions. Both are tied to a Binding: the purpose and the subject of the solution.
//
//	Challenge(binding) ─ solved in the browser ─ Verify(token, the same binding) ─ nil: admit one request
//
// # Invariants
//
//   - A solution is accepted once: its use is recorded atomically in a store shared by all processes, before Verify returns nil.
//   - A solution is valid for the purpose and the subject of its challenge, as far as the provider can verify them: see NewSiteVerify.
//   - No claim of the client about a challenge is trusted: purpose, subject, risk and expiry are signed.
//   - A solution that cannot be verified is not accepted. If the store or the provider is unavailable, the error is ErrUnavailable.
//
// # What a proof of work costs
//
// A proof of work is a price, not a proof of being human. A browser makes some 50,000 attempts a second on two processors: a solution
// takes a quarter of a second at risk 0, four seconds at the highest risk, and up to twice that. A dedicated solver makes a hundred times
// as many on the same machine. So demand a proof of work only above a limit that people rarely reach, and keep the limits behind it. Risk
// raises the price.
//
// # When Redis loses its data
//
// Used solutions can be used once more until their challenge expires. Nothing else is stored.
package captcha
