// Package admit has the handlers by which services, gateways and operators use the admission rules: decisions about requests
// that the caller describes, the rules themselves, and bans.
package admit
