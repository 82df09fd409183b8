// Package upgrade tests that processes of two versions work side by side: it exchanges the APIs and workers of an installation for
// another version's while a crowd buys, and judges the sale by the invariants. make upgrade runs it.
package upgrade
