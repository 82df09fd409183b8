// Package problem has the problems (RFC 9457) that the API answers with. kinds.go has the reasons, and the table from each to its status,
// title and page; fromerror.go has the table from errors to reasons.
package problem
