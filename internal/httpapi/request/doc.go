// Package request holds what the API knows about the request that it serves, for middleware, handlers, logs and traces.
package request
