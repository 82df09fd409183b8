// Package rooms has the handlers for waiting rooms: what visitors do, and what operators do.
package rooms
