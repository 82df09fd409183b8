// Package memorystore keeps the counts of admission in this process. It serves single processes, tests and rules with
// `on_store_error: local`.
//
// Its name ends in "store" because bans, login and orders have stores in memory too, and because redisstore must not be named like the
// Redis driver.
package memorystore
