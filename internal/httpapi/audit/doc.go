// Package audit stores what operators change through the API, and has the handler that lists it.
package audit
