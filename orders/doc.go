// Package orders has what sales and orders are: their types, states and errors. It does no I/O.
//
// Package shop sells: it is the service over Redis, a store and a queue. Packages postgres and sqlite are stores, asynqueue is a queue, and
// storetest is the specification of a store.
//
//	accepted ──► confirmed ──► paid | cancelled | expired
//	    └──────► rejected
//
// A status only moves forward. An accepted order is a Reservation in Redis, and in the memory of the process that accepted it; every other
// status is a row in the database. A unit belongs to at most one live order, because (sale, item, unit) is a primary key there.
package orders
