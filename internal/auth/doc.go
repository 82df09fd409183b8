// Package auth determines who sends a request, and what the sender may do: users by a header field of a trusted proxy or by a JWT, services
// and operators by tokens with roles, and the page's visitors by sessions. It also refuses what a page of another origin makes a
// browser send.
package auth
