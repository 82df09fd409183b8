// Package problem has the problems (RFC 9457) that the API answers with, and the one table from reasons and errors to them.
package problem
