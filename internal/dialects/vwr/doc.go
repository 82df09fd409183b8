// Package vwr serves waiting rooms to clients of AWS Virtual Waiting Room: its verbs, its statuses and the form of its tokens. docs/vwr.md
// lists where it differs.
package vwr
