// Package request holds the state of a request while the API serves it, for middleware, handlers, logs and traces.
package request
