// Package algorithm counts by the algorithms of package store, as functions of a state and a time. The Lua files of redisstore do the same
// in Redis.
package algorithm
