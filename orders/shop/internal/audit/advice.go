package audit

// advice maps an invariant to what an operator should do about a breach. Verify repairs nothing: a breach should be impossible,
// so an operator has to find its cause before any data is changed. The sale is paused first where further orders could make the
// damage worse.
var advice = map[string]string{
	"I1": "Redis and its own outbox disagree. Somebody changed Tidegate's keys, or two namespaces are one: compare NAMESPACE of all " +
		"processes. Keep Redis as it is, pause the sale, and compare its orders in Redis with GET /v1/sales/{sale}/orders; what is accepted " +
		"there is not lost while a process remembers it.",
	"I2": "Rows of orders were deleted by hand, or a backup was restored in part. Restore the rows of the orders named; do not delete " +
		"what is left of them, for a payment may have to be refunded.",
	"I3": "More was sold than there is. Pause the sale at once. Compare items.stock with the units of order_units; if the stock is what " +
		"is wrong, PUT the sale with the true stock, else cancel and refund the latest orders.",
	"I4": "A buyer holds more than any quota ever allowed, or Redis counts other units than the buyer has. Nothing is sold twice. Look at " +
		"the buyer's orders with GET /v1/sales/{sale}/orders?user=…, and cancel what is too much. If the count is wrong, somebody changed " +
		"Tidegate's keys, and buyers can order too much, or not at all: pause the sale, wait until I17 waits for nothing, and delete the " +
		"keys of its items in Redis; they are rebuilt from the database within seconds.",
	"I5": "A unit has two owners, or an order lacks one of its units. Pause the sale. The rows of order_units decide who owns a unit: " +
		"cancel or refund the other order, unless it is still reserved, when its commit will give it another unit.",
	"I6": "A unit is nowhere: it is not sold twice, it is not sold at all. If it is still so in a minute, it stays out of the sale until " +
		"Redis is loaded again: pause the sale, wait until I17 waits for nothing, and delete the keys of its items in Redis; they are " +
		"rebuilt from the database within seconds.",
	"I7": "A repeated request would be another order: somebody changed Tidegate's keys in Redis. Pause the sale, wait until I17 waits for " +
		"nothing, and delete the keys of its items in Redis; they are rebuilt from the database within seconds.",
	"I9": "The status of an order was changed past Tidegate, or its events were. order_events holds what the shop has received: " +
		"set the order's row to the last event, or correct the shop by hand.",
	"I10": "An order ended twice, or its unit was sold before it came back. Pause the sale. The rows of order_units decide who owns a unit; " +
		"delete the order's row of order_returns if the unit is somebody else's already.",
	"I11": "Compare the payments named with the payment provider's list. A paid order needs its one payment: " +
		"record it with POST /v1/orders/{id}/payment; what was captured beyond that is to be refunded.",
	"I14": "No worker expires orders. Start a worker, or look for errors in its log. The units return to sale as soon as one runs.",
}
