package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/httpapi/admit"
)

// operationsByRole are all operations of the internal listener, by who may call them: a new one belongs here. {x} stands for any name.
var operationsByRole = map[string]string{
	"nobody admit metrics operator viewer": `
		GET /
		GET /docs
		GET /livez
		GET /assets/{x}
		GET /openapi.json
		GET /problems/{x}
		GET /readyz
		DELETE /session
		GET /session
		POST /session
	`,
	"admit operator viewer": `
		GET /.well-known/jwks.json
		GET /.well-known/receipt-keys.json
		GET /v1/explain
		GET /v1/order-events
		GET /v1/orders/{x}
		GET /v1/rooms/{x}
		GET /v1/rooms/{x}/draw.csv
		GET /v1/rooms/{x}/events
		GET /v1/sales/{x}
		GET /v1/sales/{x}/orders
		GET /v1/semaphores
		GET /v1/semaphores/{x}
		GET /vwr/num_active_tokens
		GET /vwr/public_key
		GET /vwr/serving_num
		GET /vwr/waiting_num
	`,
	"admit operator": `
		GET /koala/monitor/alive
		GET /koala/multi/browse
		GET /koala/rule/browse
		GET /koala/rule/browse_complete
		GET /koala/rule/feedback
		GET /koala/rule/update
		GET /koala/rule/value
		POST /v1/admit
		POST /v1/admit/batch
		POST /v1/orders/{x}/cancel
		POST /v1/orders/{x}/payment
		DELETE /v1/rooms/{x}/place
		GET /v1/rooms/{x}/place
		POST /v1/rooms/{x}/place
		POST /v1/rooms/{x}/place/claim
		GET /v1/rooms/{x}/places.csv
		POST /v1/sales/{x}/orders
		GET /v1/sales/{x}/orders.csv
		POST /v1/semaphores/{x}/permits
		DELETE /v1/semaphores/{x}/permits/{x}
		PUT /v1/semaphores/{x}/permits/{x}
		POST /vwr/assign_queue_num
		GET /vwr/expired_tokens
		POST /vwr/generate_token
		GET /vwr/queue_num
		GET /vwr/queue_pos_expiry
		POST /vwr/update_session
	`,
	"operator viewer": `
		GET /events
		GET /v1/bans
		GET /v1/bans/history
		GET /v1/orders/dead
		GET /v1/rooms
		GET /v1/rooms/{x}/places
		GET /v1/rooms/{x}/verify
		GET /v1/rules
		GET /v1/sales
		GET /v1/sales/{x}/verify
	`,
	"metrics operator": `
		GET /metrics
	`,
	"operator": `
		GET /koala/dump/counter
		GET /koala/dump/policy
		DELETE /v1/bans/{x}/{x}
		PUT /v1/bans/{x}/{x}
		POST /v1/orders/dead/{x}/replay
		PUT /v1/rooms/{x}
		POST /v1/rooms/{x}/advance
		POST /v1/rooms/{x}/beacon
		POST /v1/rooms/{x}/close
		POST /v1/rooms/{x}/draw
		POST /v1/rooms/{x}/hold
		POST /v1/rooms/{x}/message
		POST /v1/rooms/{x}/rate
		POST /v1/rooms/{x}/resume
		POST /v1/rules/reload
		PUT /v1/sales/{x}
		PUT /v1/sales/{x}/items/{x}
		POST /v1/sales/{x}/close
		POST /v1/sales/{x}/open
		POST /v1/sales/{x}/pause
		POST /v1/sales/{x}/rebuild
		DELETE /v1/semaphores/{x}
		PUT /v1/semaphores/{x}
		POST /vwr/increment_serving_counter
		POST /vwr/reset_initial_state
	`,
}

// TestRolesOfEveryOperation calls every documented operation of the internal listener as each role.
func TestRolesOfEveryOperation(t *testing.T) {
	b := setup(t, withTokens(t), withPage, withSemaphores(t), withRooms(t), documentedKoala(t, nil))
	h := b.Internal()
	may := map[string]string{}
	for roles, operations := range operationsByRole {
		for line := range strings.Lines(operations) {
			may[strings.TrimSpace(line)] = roles
		}
	}
	delete(may, "")
	for _, method := range admit.AuthzMethods {
		may[method+" /v1/authz"], may[method+" /v1/authz/{x}"] = "admit operator", "admit operator"
	}
	parameter := regexp.MustCompile(`\{\w+\}`)
	for path, item := range documentOf(t, h)["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			operation := strings.ToUpper(method) + " " + parameter.ReplaceAllString(path, "{x}")
			roles, known := may[operation]
			delete(may, operation)
			if !known {
				t.Errorf("who may call %s?", operation)
			}
			for _, role := range []string{"nobody", "admit", "metrics", "viewer", "operator"} {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // ends streams
				r := httptest.NewRequestWithContext(ctx, strings.ToUpper(method), "http://localhost:8080"+parameter.ReplaceAllString(path, "x"), http.NoBody)
				if role != "nobody" {
					r.Header.Set("X-Tidegate-Token", role+"-token-of-tests")
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				cancel()
				allowed := w.Code != http.StatusUnauthorized && w.Code != http.StatusForbidden
				if want := slices.Contains(strings.Fields(roles), role); allowed != want {
					t.Errorf("%s as %s: %d", operation, role, w.Code)
				}
			}
		}
	}
	for operation := range may {
		t.Errorf("%s is not documented", operation)
	}
}
