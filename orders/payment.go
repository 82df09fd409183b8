package orders

// Action is what a payment provider has to do about a capture.
type Action string

// The actions. A refund is for a capture that found no order waiting for it.
const (
	ActionNone   Action = "none"
	ActionRefund Action = "refund"
)

// Payment is a capture as it was recorded. The action is that of its first
// recording; the status is the order's now.
type Payment struct {
	Order     ID
	Reference string // the payment provider's, unique among all payments
	Action    Action
	Status    Status
}
