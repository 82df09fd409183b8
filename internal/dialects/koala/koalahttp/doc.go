// Package koalahttp serves Koala's endpoints: its parameters, its formats and its errors. The names of the types are those of the
// OpenAPI document.
package koalahttp
