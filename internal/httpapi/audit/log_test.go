package audit

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/orders"
)

func TestTargetHasNoSecret(t *testing.T) {
	reference := orders.ID{0x80, 6: 0x8f, 8: 0xbf, 9: 0xff, 15: 1}
	for _, c := range []struct {
		route, path string
		order       orders.ID
		want        string
	}{
		{"/v1/orders/:id/pay", "/v1/orders/secret/pay", reference, "/v1/orders/" + reference.String() + "/pay"},
		{"/v1/orders/:id/pay", "/v1/orders/secret/pay", orders.ID{}, "/v1/orders/…/pay"},
		{"/v1/orders/:id", "/v1/orders/secret", orders.ID{}, "/v1/orders/…"},
		{"/v1/orders/dead/:id/replay", "/v1/orders/dead/secret/replay", orders.ID{}, "/v1/orders/dead/…/replay"},
		{"/v1/semaphores/:name/permits/:id", "/v1/semaphores/permits/permits/secret", orders.ID{}, "/v1/semaphores/permits/permits/…"},
		{"/v1/semaphores/:name/permits/:id", "/v1/semaphores/permits/permits/secret/permits/x", orders.ID{}, "/v1/semaphores/permits/permits/…"},
		{"/v1/sales/:sale/items/:item", "/v1/sales/a/items/b", orders.ID{}, "/v1/sales/a/items/b"},
		{"/v1/bans/:user", "/v1/bans//orders/x", orders.ID{}, "/v1/bans//orders/x"},
	} {
		r := httptest.NewRequest(http.MethodPost, c.path, nil)
		e := echo.New().NewContext(r, httptest.NewRecorder())
		e.SetPath(c.route)
		e.SetParamNames("id", "name")
		e.SetParamValues("secret", "permits")
		if got := target(&request.Info{HTTP: r, Echo: e, Order: c.order}); got != c.want {
			t.Errorf("%s: %q, want %q", c.path, got, c.want)
		}
	}
}
