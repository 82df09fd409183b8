// Package httpapi serves Tidegate over HTTP: a public listener for browsers
// and shops' front ends, and an internal one for services and operators.
//
// Routes and handlers only translate. What a sale or an order is stands in
// package orders, who may come in stands in package admission. What goes wrong
// there becomes a problem (RFC 9457) in one place, problem.go.
//
// A request passes: request id and recovery, CORS, size of the body, on the
// internal listener host, origin and token, then identity, then the rules, then
// the handler. Placing an order asks the rules itself, after the answers that
// cost nothing: a replay and a sale known to be sold out.
//
// On the internal listener services ask about callers of their own: admit says
// what the rules think of a request that it is told, authz of one that a
// gateway forwards. There a denial is the answer and not the service's fault:
// admit says it with 200.
package httpapi
