// Package login has the handlers for login attempts, and for what operators ask about failed logins.
package login
