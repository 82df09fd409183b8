// Package jsontime converts times and durations for JSON bodies and header fields.
package jsontime
