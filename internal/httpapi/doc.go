// Package httpapi serves Tidegate over HTTP: a public listener for browsers
// and shops' front ends, and an internal one for services and operators.
//
// This package has the server and the middleware. The handlers are in the packages below it, such as sales, rooms, admit, permits
// and login: each returns its routes, which package route registers on the listeners. They only translate: package orders/shop
// sells, package admission decides about requests. Their errors become problems (RFC 9457) in one place, package internal/httpapi/problem.
//
// A request passes: request id and recovery, CORS, size of the body, on the
// internal listener host, origin and token, then identity, then the rules (package charge), then the handler. The handler for placing an
// order calls the rules itself, after the answers that cost nothing: a replay and a sale known to be sold out.
//
// On the internal listener, services ask about their own callers: admit decides a request that is described in its body, authz
// one that a gateway forwards. A denial is a regular answer there, not an error of the service: admit returns it with 200.
package httpapi
