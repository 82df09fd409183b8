package httpapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestWrongAttributesAtAuthz(t *testing.T) {
	for field, want := range map[string]string{
		"X-Tidegate-Attribute-Route":                      "is not an attribute; the gateway must send it in X-Forwarded-Uri or X-Original-URI",
		"X-Tidegate-Attribute-TIER":                       "must send it in X-User-Tier",
		"X-Tidegate-Attribute-User":                       "must send it in X-User-ID",
		"X-Tidegate-Attribute-Host":                       "must send it in X-Forwarded-Host",
		"X-Tidegate-Attribute-Network":                    "must send it in X-Forwarded-For",
		"X-Tidegate-Attribute-":                           "must have a name of 1 to 64 bytes",
		"X-Tidegate-Attribute-" + strings.Repeat("a", 65): "must have a name of 1 to 64 bytes",
		"X-Tidegate-Attribute-Long":                       "must have at most 1024 bytes",
	} {
		value := "1"
		if strings.HasSuffix(field, "Long") {
			value = strings.Repeat("1", 1025)
		}
		fields := []string{"X-Forwarded-Uri", "/x", "X-Forwarded-Method", "GET", "X-Forwarded-For", "198.51.100.9", field, value}
		b := setup(t)
		if w := gatewayCall(b, "GET", "/v1/authz", fields...); w.Code != 422 || !strings.Contains(w.Body.String(), want) || len(b.gate.asked) != 0 {
			t.Errorf("%.40s: %d %s", field, w.Code, w.Body)
		}
	}
	many := []string{"X-Forwarded-Uri", "/x", "X-Forwarded-Method", "GET", "X-Forwarded-For", "198.51.100.9"}
	for i := range 65 {
		many = append(many, fmt.Sprintf("X-Tidegate-Attribute-A%d", i), "1")
	}
	if w := gatewayCall(setup(t), "GET", "/v1/authz", many...); w.Code != 422 || !strings.Contains(w.Body.String(), "at most 64 attributes") {
		t.Errorf("65: %d %s", w.Code, w.Body)
	}

	b := setup(t)
	r := httptest.NewRequest("GET", "/v1/authz", nil)
	r.RemoteAddr, r.Host = "10.0.0.1:5000", "localhost:8081"
	r.Header = http.Header{"X-Forwarded-Uri": {"/x"}, "X-Forwarded-Method": {"GET"}, "X-Tidegate-Attribute-Plan": {"gold", "free"}}
	w := httptest.NewRecorder()
	b.Internal().ServeHTTP(w, r)
	if w.Code != 422 || !strings.Contains(w.Body.String(), "must be sent once by the gateway") || len(b.gate.asked) != 0 {
		t.Errorf("twice: %d %s", w.Code, w.Body)
	}
}
