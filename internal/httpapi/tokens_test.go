package httpapi

import (
	"encoding/base64"
	"log/slog"
	"testing"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/auth/authtest"
)

func withTokens(t *testing.T) func(*Config) {
	return func(c *Config) {
		var err error
		if c.Tokens, err = auth.LoadTokens(authtest.WriteTokens(t, authtest.TokenList), false, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRoles(t *testing.T) {
	b := setup(t, withTokens(t))
	order := "/v1/orders/" + orderID.String()
	for _, tt := range []struct {
		method, path                           string
		none, admit, metrics, viewer, operator int
	}{
		{"GET", "/livez", 200, 200, 200, 200, 200},
		{"GET", "/readyz", 200, 200, 200, 200, 200},
		{"GET", "/openapi.json", 200, 200, 200, 200, 200},
		{"GET", "/docs", 200, 200, 200, 200, 200},
		{"GET", "/problems/invalid", 200, 200, 200, 200, 200},
		{"GET", "/v1/sales/flash", 401, 200, 403, 200, 200},
		{"POST", "/v1/sales/flash/orders", 401, 422, 403, 403, 422}, // without a body
		{"GET", order, 401, 200, 403, 200, 200},
		{"POST", order + "/cancel", 401, 200, 403, 403, 200},
		{"POST", order + "/payment", 401, 422, 403, 403, 422},
		{"GET", "/v1/order-events", 401, 200, 403, 200, 200},
		{"GET", "/v1/orders/dead", 401, 403, 403, 200, 200},
		{"POST", "/v1/orders/dead/" + orderID.String() + "/replay", 401, 403, 403, 403, 200},
		{"GET", "/v1/sales/flash/orders", 401, 200, 403, 200, 200},
		{"GET", "/v1/sales", 401, 403, 403, 200, 200},
		{"GET", "/v1/sales/flash/verify", 401, 403, 403, 200, 200},
		{"GET", "/v1/rules", 401, 403, 403, 200, 200},
		{"POST", "/v1/sales/flash/open", 401, 403, 403, 403, 200},
		{"POST", "/v1/sales/flash/pause", 401, 403, 403, 403, 200},
		{"POST", "/v1/sales/flash/close", 401, 403, 403, 403, 200},
		{"PUT", "/v1/sales/flash", 401, 403, 403, 403, 422},
		{"POST", "/v1/rules/reload", 401, 403, 403, 403, 200},
		{"POST", "/v1/admit", 401, 422, 403, 403, 422},
		{"POST", "/v1/admit/batch", 401, 422, 403, 403, 422},
		{"GET", "/v1/explain", 401, 200, 403, 200, 200},
		{"GET", "/v1/authz", 401, 422, 403, 403, 422}, // without the client's request
		{"DELETE", "/v1/authz/x", 401, 200, 403, 403, 200},
		{"GET", "/v1/bans", 401, 403, 403, 200, 200},
		{"GET", "/v1/bans/history", 401, 403, 403, 200, 200},
		{"PUT", "/v1/bans/user/ann", 401, 403, 403, 403, 422},
		{"DELETE", "/v1/bans/user/ann", 401, 403, 403, 403, 404},
		{"GET", "/metrics", 401, 403, 200, 403, 200},
		{"GET", "/nothing", 401, 404, 404, 404, 404},
		{"DELETE", "/v1/rules", 401, 405, 405, 405, 405},
	} {
		for token, want := range map[string]int{
			"": tt.none, "a-wrong-token-of-tests": tt.none, "admit-token-of-tests": tt.admit, "metrics-token-of-tests": tt.metrics,
			"viewer-token-of-tests": tt.viewer, "operator-token-of-tests": tt.operator,
		} {
			w := call(b.Internal(), tt.method, tt.path, "", "X-Tidegate-Token", token, "X-User-ID", "")
			if w.Code != want {
				t.Errorf("%s %s with %q: %d, want %d: %s", tt.method, tt.path, token, w.Code, want, w.Body)
			}
			if w.Code >= 400 {
				problemIn(t, w)
			}
		}
	}
}

func TestWaysToSendAToken(t *testing.T) {
	b := setup(t, withTokens(t))
	basic := func(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(s)) }
	for _, tt := range []struct {
		fields []string
		status int
	}{
		{[]string{"Authorization", "Bearer operator-token-of-tests"}, 200},
		{[]string{"Authorization", "bearer operator-token-of-tests"}, 200},
		{[]string{"Authorization", basic("anybody:operator-token-of-tests")}, 401}, // see TestBasic
		{[]string{"X-Tidegate-Token", "operator-token-of-tests"}, 200},
		{[]string{"X-Tidegate-Token", "wrong", "Authorization", "Bearer operator-token-of-tests"}, 401},
		{[]string{"Authorization", basic("operator-token-of-tests:")}, 401},
		{[]string{"Authorization", basic("operator-token-of-tests")}, 401},
		{[]string{"Authorization", "operator-token-of-tests"}, 401},
		{[]string{"Authorization", "Bearer operator-token-of-testz"}, 401},
		{[]string{"Authorization", "Bearer operator-token-of-tests2"}, 401},
		{[]string{"Authorization", "Bearer "}, 401},
		{nil, 401},
	} {
		if w := call(b.Internal(), "GET", "/v1/rules", "", tt.fields...); w.Code != tt.status {
			t.Errorf("%v: %d %s", tt.fields, w.Code, w.Body)
		}
	}
	// On the public listener tokens have no effect.
	if p := problemIn(t, call(b.Public(), "GET", "/v1/rules", "", "X-Tidegate-Token", "operator-token-of-tests")); p.Status != 404 {
		t.Errorf("%+v", p)
	}
}

// TestTokenAndJWT: with X-Tidegate-Token, Authorization holds the user's token.
func TestTokenAndJWT(t *testing.T) {
	id, err := auth.NewJWT(auth.JWTOptions{Secret: authtest.Secret})
	if err != nil {
		t.Fatal(err)
	}
	b := setup(t, withTokens(t), func(c *Config) { c.Identity = id })
	user := "Bearer " + authtest.Sign(t, "HS256", authtest.Secret, "", authtest.GoodClaims(nil))
	if w := call(b.Internal(), "POST", placePath, `{"item":"shoe"}`, "X-Tidegate-Token", "admit-token-of-tests", "Authorization", user); w.Code != 202 || b.orders.requests[0].User != "ada" {
		t.Errorf("%d %s %+v", w.Code, w.Body, b.orders.requests)
	}
	if w := call(b.Internal(), "POST", placePath, `{"item":"shoe"}`, "Authorization", "Bearer admit-token-of-tests"); w.Code != 202 || b.orders.requests[1].User != "" {
		t.Errorf("%d %s %+v", w.Code, w.Body, b.orders.requests)
	}
	if w := call(b.Internal(), "GET", "/v1/sales/flash", "", "Authorization", user); w.Code != 401 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
