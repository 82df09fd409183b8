// Package store defines where a gate counts: the contract between package admission and the stores in memorystore and redisstore.
//
// A [Store] decides all tallies of one request together, in one call: it counts the request everywhere or nowhere. A [Tally] is one
// counter, such as "the requests of one user within a minute"; its [Algorithm] defines when it has room. Package
// storetest has the conformance suite that every store passes.
//
// A program normally needs only a constructor of a store; see admission.New and admission.NewWithStore.
package store
