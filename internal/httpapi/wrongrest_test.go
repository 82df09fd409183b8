package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/orders"
)

// TestWrongRest: whatever follows the path of a route, and whoever answers there, an error is a problem.
func TestWrongRest(t *testing.T) {
	t.Parallel()
	b := setup(t, withSemaphores(t), withRooms(t), documentedKoala(t, nil), withPage)
	probes, _ := Probes(func(context.Context) []orders.Condition { return nil }, "test", nil, nil, http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	for name, h := range map[string]http.Handler{"public": b.Public(), "internal": b.Internal(), "worker": probes} {
		calls := map[string]string{"/livez": "get", "/metrics": "get", "/": "get"}
		if name != "worker" {
			for path, item := range documentOf(t, h)["paths"].(map[string]any) {
				for method := range item.(map[string]any) {
					calls[path] = method
				}
			}
		}
		for path, method := range calls {
			path = regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, "none")
			if strings.HasPrefix(path, "/v1/authz") { // any rest is right: it is the path of the gateway's client
				continue
			}
			for _, rest := range []string{"/none", "/none/", "/%2e%2e/none", "//none", "x", "%00", "%FF", "/none?x=%zz"} {
				for _, method := range []string{strings.ToUpper(method), "GET", "PATCH"} {
					w := call(h, method, path+rest, "")
					if w.Code < 400 {
						t.Errorf("%s: %s %s: %d %.100s", name, method, path+rest, w.Code, w.Body)
						continue
					}
					if page := strings.HasPrefix(w.Header().Get("Content-Type"), "text/html"); !page || !strings.HasPrefix(path, "/rooms/") {
						problemIn(t, w) // the page of a room looks again whether there is one
					}
				}
			}
		}
	}
}
