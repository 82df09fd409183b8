// Package contract tests the OpenAPI documents of Tidegate with a client that a public generator makes from them.
package contract
