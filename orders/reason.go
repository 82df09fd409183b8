package orders

// A Reason is why an order was refused. The same word is used in the scripts'
// replies, in JSON, in metrics and in the logs.
type Reason string

// Why a request for an order was refused: Refusals.
const (
	ReasonNotStarted    Reason = "not_started"
	ReasonPaused        Reason = "paused"
	ReasonEnded         Reason = "ended"
	ReasonSoldOut       Reason = "sold_out"
	ReasonNotEnough     Reason = "not_enough"
	ReasonQuotaPerBuyer Reason = "quota_per_buyer"
	ReasonKeyReused     Reason = "key_reused"
	ReasonAtCapacity    Reason = "at_capacity"
	ReasonTurnRequired  Reason = "turn_required" // the item has a waiting room, and the buyer has not been admitted
	ReasonRecovering    Reason = "recovering"
)

// Refusals are the reasons that a process or Redis can refuse a request for.
var Refusals = []Reason{
	ReasonNotStarted, ReasonPaused, ReasonEnded, ReasonSoldOut, ReasonNotEnough, ReasonQuotaPerBuyer, ReasonKeyReused, ReasonAtCapacity,
	ReasonTurnRequired, ReasonRecovering,
}

// Why an accepted order ended rejected.
const (
	ReasonRecoveredLate Reason = "recovered_late" // it was delivered after a recovery, and no unit or quota was left for it
	ReasonDuplicate     Reason = "duplicate"      // another order holds its idempotency key
)
