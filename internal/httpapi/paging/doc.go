// Package paging splits lists into pages, which a cursor connects.
package paging
