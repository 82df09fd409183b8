// Package apidocs serves the documentation of the API.
package apidocs
