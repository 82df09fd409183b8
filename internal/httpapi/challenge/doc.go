// Package challenge has the handler that gives callers CAPTCHAs, and verifies their solutions.
package challenge
