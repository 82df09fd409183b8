package problem

import (
	"encoding/json"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/orders"
)

// Reasons that packages admission and orders do not define.
const (
	Unauthenticated      = "unauthenticated"
	Forbidden            = "forbidden"
	UnknownSale          = "unknown_sale"
	UnknownItem          = "unknown_item"
	UnknownOrder         = "unknown_order"
	UnknownRoute         = "unknown_route"
	UnknownProblem       = "unknown_problem"
	UnknownRequest       = "unknown_request"
	UnknownRule          = "unknown_rule"
	UnknownBan           = "unknown_ban"
	UnknownSemaphore     = "unknown_semaphore"
	UnknownAttempt       = "unknown_attempt"
	UnknownRoom          = "unknown_room"
	UnknownPlace         = "unknown_place"
	NotYourTurn          = "not_your_turn"
	TurnLapsed           = "turn_lapsed"
	PermitLost           = "permit_lost"
	MethodNotAllowed     = "method_not_allowed"
	Timeout              = "timeout"
	Conflict             = "conflict"
	ForceRequired        = "force_required"
	StillRefused         = "still_refused"
	OrderFinal           = "order_final"
	TooLarge             = "too_large"
	UnsupportedMediaType = "unsupported_media_type"
	Invalid              = "invalid"
	KeyRequired          = "key_required"
	Internal             = "internal"
	Malformed            = "malformed_request"
	Expectation          = "expectation_failed"
	HeaderTooLarge       = "header_too_large"
	TransferCoding       = "unsupported_transfer_coding"
	HTTPVersion          = "unsupported_http_version"
	AtCapacity           = string(orders.ReasonAtCapacity)
	Draining             = "draining"
	StoreUnavailable     = "store_unavailable"
)

const (
	quotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	reducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// A Kind is what all problems of one reason have in common.
type Kind struct {
	Reason string
	Status int
	Name   string // of the page under /problems, or a registered URI
	Title  string
	Advice string        // on the page: what the caller can do
	Retry  time.Duration // when to retry, unless the problem has its own value; zero: unknown
	body   []byte        // of a problem with nothing to add
}

// Kinds is the one table from reasons to problems.
var Kinds = []Kind{
	{
		Unauthenticated, 401, "unauthenticated", "Authentication is required",
		"The credentials are missing, wrong or expired, or the sale or waiting room takes known users only. Sign in and repeat.", 0, nil,
	},
	{
		Forbidden, 403, "forbidden", "This caller may not do that",
		"A rule refuses it for good, the token's role does not cover the call, or the request comes from a foreign host or origin, which " +
			"`detail` names.", 0, nil,
	},
	{string(admission.Banned), 403, "banned", "The caller is banned", "Retry-After is the end of the ban.", 0, nil},
	{
		string(admission.CaptchaRequired), 403, "captcha-required", "The caller has to prove to be human",
		"Get the challenge at `challenge.url`, solve it, and repeat the request with the solution in X-Captcha: it lets one request in. " +
			"Where there is Retry-After, waiting as long helps as well.", 0, nil,
	},
	{
		string(orders.ReasonTurnRequired), 403, "turn-required", "A turn in the waiting room is required",
		"Join the room at `room`, wait for the turn, and claim it. Then repeat the request.", 0, nil,
	},
	{
		Malformed, 400, "malformed-request", "The request is not HTTP", "`detail`, where given, describes the error. The connection is closed.",
		0, nil,
	},
	{UnknownSale, 404, "not-found", "There is no such sale", "Check the name of the sale.", 0, nil},
	{UnknownItem, 404, "not-found", "There is no such item in this sale", "The sale lists its items.", 0, nil},
	{UnknownOrder, 404, "not-found", "There is no such order", "An order of somebody else looks the same as none.", 0, nil},
	{UnknownRoute, 404, "not-found", "There is nothing at this path", "/docs lists all calls.", 0, nil},
	{
		UnknownRequest, 404, "not-found", "No such charge is remembered",
		"A charge can be taken back for a minute, by the request_id and the subject that it was made with.", 0, nil,
	},
	{UnknownRule, 404, "not-found", "There is no such rule", "/v1/rules lists the rules in force.", 0, nil},
	{UnknownBan, 404, "not-found", "There is no such ban", "/v1/bans lists the bans in force.", 0, nil},
	{
		UnknownSemaphore, 404, "not-found", "There is no such semaphore",
		"/v1/semaphores lists them. The rules file declares them, and PUT /v1/semaphores/{name} does.", 0, nil,
	},
	{
		UnknownAttempt, 404, "not-found", "There is no such login attempt",
		"An attempt is named by the attempt_id that it got when it was allowed, and by nothing else.", 0, nil,
	},
	{UnknownRoom, 404, "not-found", "There is no such waiting room", "Check the name of the room.", 0, nil},
	{
		UnknownPlace, 404, "not-found", "The caller has no place in this waiting room",
		"POST /v1/rooms/{room}/place gives one. A place of somebody else looks the same as none.", 0, nil,
	},
	{UnknownProblem, 404, "not-found", "There is no such problem", "", 0, nil},
	{MethodNotAllowed, 405, "method-not-allowed", "This path does not support the method", "Allow names the supported methods.", 0, nil},
	{Timeout, 408, "timeout", "The request did not arrive in time", "Send the body without pauses.", 0, nil},
	{
		string(orders.ReasonSoldOut), 409, "sold-out", "The item is sold out",
		"Every unit is reserved or sold. A unit that a buyer gives back is on sale again.", 0, nil,
	},
	{string(orders.ReasonNotEnough), 409, "not-enough", "Fewer units are left than asked for", "Ask for at most `free` units.", 0, nil},
	{
		string(orders.ReasonQuotaPerBuyer), 409, "quota-per-buyer", "The buyer would hold more units than allowed",
		"`order_id`, where given, is an order that holds some; else `detail` states how many one buyer may hold. Cancelled, expired and " +
			"rejected orders do not count.", 0, nil,
	},
	{
		Conflict, 409, "conflict", "The change contradicts the present state",
		"Stock only grows, an item is never dropped, a closed sale stays closed, a payment is of one order, a login attempt ends once, " +
			"and whom the rules never ban is not banned. A waiting room keeps its sale, its order and what it promised.", 0, nil,
	},
	{
		ForceRequired, 409, "force-required", "The change would disrupt the sale",
		"`detail` describes how: a sale that is open would be shut, or a sale with orders would take other buyers than before. `?force=true` " +
			"makes the change nevertheless. A sale that is not open can be changed without it.", 0, nil,
	},
	{
		StillRefused, 409, "still-refused", "The database still refuses the order",
		"`detail` has its message. Remove the cause, most often a constraint or a trigger that somebody added, then replay the order again. " +
			"Until then it stays accepted and keeps its units.", 0, nil,
	},
	{
		NotYourTurn, 409, "not-your-turn", "It is not the caller's turn",
		"Read the place again after `poll_after_ms`, and claim when its state is turn. 0: the state is final.", 0, nil,
	},
	{
		OrderFinal, 409, "order-final", "The order cannot be cancelled any more",
		"`detail` describes its state. An order that is paid, over, rejected, or was sold without a time to pay stays as it is.", 0, nil,
	},
	{
		string(orders.ReasonNotStarted), 409, "sale-not-started", "The sale has not started",
		"Come back at its start. The same of a waiting room: at the time from which one may join.", 0, nil,
	},
	{string(orders.ReasonPaused), 409, "sale-paused", "The sale is paused", "It may go on at any time.", 0, nil},
	{
		string(orders.ReasonEnded), 409, "sale-ended", "It is over",
		"The sale, or the waiting room. Orders that stand and places that were admitted are not affected.", 0, nil,
	},
	{
		PermitLost, 410, "permit-lost", "The permit is over",
		"Its lease has ended, or somebody has released it. Stop what it was for: another one may hold it now.", 0, nil,
	},
	{
		TurnLapsed, 410, "turn-lapsed", "The turn is over",
		"The time to claim it, or to use the pass, has ended. Joining again gives a place at the end of the queue.", 0, nil,
	},
	{
		TooLarge, 413, "too-large", "The body is too large",
		"A body has at most 64 KiB, that of an order 4 KiB, and that of a sale's definition 2 MiB.", 0, nil,
	},
	{
		UnsupportedMediaType, 415, "unsupported-media-type", "The body is not JSON",
		"Send it with `Content-Type: application/json` and without Content-Encoding.", 0, nil,
	},
	{Expectation, 417, "expectation-failed", "The expectation cannot be met", "Leave out Expect, or send 100-continue.", 0, nil},
	{Invalid, 422, "invalid", "The request is not valid", "`errors` names each place and what would be right.", 0, nil},
	{
		string(orders.ReasonKeyReused), 422, "idempotency-key-reused", "The Idempotency-Key belongs to another request",
		"Use a new key for each order, and the same one only to repeat it.", 0, nil,
	},
	{
		KeyRequired, 422, "idempotency-key-required", "An Idempotency-Key is required",
		"Send one, with at most 255 printable characters. It tells a repetition from a second order. Without a user it has at least 22, " +
			"is a secret, and a new one for each order: a random UUID.", 0, nil,
	},
	{string(admission.RateLimited), 429, quotaExceeded, "Too many requests", "", 0, nil},
	{string(admission.CostAboveLimit), 429, quotaExceeded, "The request exceeds the whole limit", "", 0, nil},
	{HeaderTooLarge, 431, "header-too-large", "The header is too large", "All fields of a request together have at most 32 KiB.", 0, nil},
	{Internal, 500, "internal", "Something went wrong here", "It is not the caller's fault. Quote the request id in `instance`.", 0, nil},
	{
		TransferCoding, 501, "unsupported-transfer-coding", "The body's transfer coding is not known",
		"Send it chunked, or with Content-Length.", 0, nil,
	},
	{AtCapacity, 503, reducedCapacity, "The service is at its capacity", "", time.Second, nil},
	{Draining, 503, reducedCapacity, "This process is shutting down", "", time.Second, nil},
	{
		StoreUnavailable, 503, "unavailable", "The service cannot decide at the moment",
		"The outcome may be unknown: repeat with the same Idempotency-Key or reference. `detail`, where given, names what is unavailable.",
		time.Second, nil,
	},
	{
		string(orders.ReasonRecovering), 503, "unavailable", "The sale is recovering",
		"Its state is being restored; no order is lost. Repeat with the same Idempotency-Key.", 2 * time.Second, nil,
	},
	{HTTPVersion, 505, "unsupported-http-version", "The HTTP version is not known", "Speak HTTP/1.1.", 0, nil},
}

var kindOf = func() map[string]*Kind {
	m := make(map[string]*Kind, len(Kinds))
	for i := range Kinds {
		k := &Kinds[i]
		k.body, _ = json.Marshal(k.problem()) // of strings and a number: cannot fail
		m[k.Reason] = k
	}
	return m
}()
