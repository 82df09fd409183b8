// Package page splits lists into pages, which a cursor connects.
package page
