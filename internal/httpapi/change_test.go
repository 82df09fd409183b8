package httpapi

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/orders"
)

func TestCancel(t *testing.T) {
	path := "/v1/orders/" + orderID.String() + "/cancel"
	b := setup(t)
	b.orders.found.Status = orders.StatusCancelled
	w := call(b.Public(), "POST", path, "")
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"status":"cancelled"`) || b.orders.viewer != (orders.Viewer{User: "ada"}) || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %s as %+v", w.Code, w.Body, b.orders.viewer)
	}
	if len(b.gate.asked) != 1 || b.gate.asked[0].Route != path || b.gate.asked[0].Method != "POST" {
		t.Errorf("charged %+v", b.gate.asked)
	}
	for user, status := range map[string]int{"eve": 404, "": 404} {
		if p := problemIn(t, call(b.Public(), "POST", path, "", "X-User-ID", user)); p.Status != status || p.Reason != "unknown_order" {
			t.Errorf("%q: %+v", user, p)
		}
	}
	if w := call(b.Internal(), "POST", path, "", "X-User-ID", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"user":"ada"`) || !b.orders.viewer.All {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	b.orders.err = failure.New(orders.ErrOrderFinal, "order %s is %s", orderID, orders.StatusPaid)
	p := problemIn(t, call(b.Public(), "POST", path, ""))
	if p.Status != 409 || p.Type != "/problems/order-final" || p.Reason != "order_final" || p.Detail != "order "+orderID.String()+" is paid" {
		t.Errorf("%+v", p)
	}
	b.orders.err = failure.New(orders.ErrUnavailable, "order %s is not committed yet", orderID)
	w = call(b.Public(), "POST", path, "")
	if p := problemIn(t, w); p.Status != 503 || p.Reason != "store_unavailable" || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%+v %v", p, w.Header())
	}
	b.gate.decision = admission.Decision{Reason: admission.RateLimited}
	b.orders.calls = nil
	if p := problemIn(t, call(b.Public(), "POST", path, "")); p.Status != 429 || slices.Contains(b.orders.calls, "cancel") {
		t.Errorf("%+v %v", p, b.orders.calls)
	}
}

func TestPayment(t *testing.T) {
	path := "/v1/orders/" + orderID.String() + "/payment"
	b := setup(t)
	b.orders.paid = orders.Payment{Order: orderID, Reference: "pi_1", Action: orders.ActionRefund, Status: orders.StatusExpired}
	w := call(b.Internal(), "POST", path, capture)
	if w.Code != 200 || w.Body.String() != `{"status":"expired","action":"refund"}`+"\n" || !slices.Equal(b.orders.calls, []string{"capture " + orderID.String() + " pi_1"}) {
		t.Errorf("%d %s %v", w.Code, w.Body, b.orders.calls)
	}
	if p := problemIn(t, call(b.Public(), "POST", path, capture)); p.Status != 404 {
		t.Errorf("a buyer says that the order is paid: %+v", p)
	}
	for body, at := range map[string]string{
		`{"reference":"x","outcome":"failed"}`:              "body.outcome",
		`{"reference":"x","outcome":"Captured"}`:            "body.outcome",
		`{"reference":"x"}`:                                 "body",
		`{"outcome":"captured"}`:                            "body",
		`{"reference":1,"outcome":"captured"}`:              "body.reference",
		`{"reference":"x","outcome":"captured","amount":1}`: "body.amount",
	} {
		if p := problemIn(t, call(b.Internal(), "POST", path, body)); p.Status != 422 || p.Errors[0].Location != at {
			t.Errorf("%s: %+v", body, p)
		}
	}
	big := `{"outcome":"captured","reference":"` + strings.Repeat("x", request.MaxBody) + `"}`
	if p := problemIn(t, call(b.Internal(), "POST", path, big)); p.Status != 413 {
		t.Errorf("%+v", p)
	}
	for err, want := range map[error]int{
		&orders.Error{Kind: orders.ErrInvalid, Field: "reference", Detail: "must not be empty"}: 422,
		orders.ErrUnknownOrder: 404,
		&orders.Error{Kind: orders.ErrConflict, Detail: `reference "pi_1" is of another order`}: 409,
		orders.ErrRecovering:  503,
		orders.ErrUnavailable: 503,
	} {
		b.orders.err = err
		if p := problemIn(t, call(b.Internal(), "POST", path, capture)); p.Status != want {
			t.Errorf("%v: %+v", err, p)
		}
	}
	b.orders.err = &orders.Error{Kind: orders.ErrUncommitted, Detail: "the database refuses order 7"}
	if p := problemIn(t, call(b.Internal(), "POST", path, capture)); p.Status != 503 || p.Detail != "the database refuses order 7" {
		t.Errorf("%+v", p)
	}
}

const capture = `{"reference":"pi_1","outcome":"captured"}`
