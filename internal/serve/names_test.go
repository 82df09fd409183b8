package serve

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// TestNamesThatCannotExist: Postgres refuses text with NUL or not in UTF-8. On no route is that an error of the program.
func TestNamesThatCannotExist(t *testing.T) {
	t.Parallel()
	env := environment(testenv.Redis(t), databases.Postgres(t))
	startWorker(t, env)
	s := openShop(t, startAPI(t, env), 10)
	param := regexp.MustCompile(`\{(\w+)\}`)
	for _, listener := range []string{"public", "internal"} {
		var document struct {
			Paths map[string]map[string]struct {
				RequestBody any `json:"requestBody"`
				Parameters  []struct {
					Name, In string
					Schema   struct{ Type any }
				}
			}
		}
		servetest.Call("GET", s.URL(listener)+"/openapi.json", "").Into(t, &document)
		for path, operations := range document.Paths {
			for method, op := range operations {
				body := ""
				if op.RequestBody != nil {
					body = strings.ReplaceAll(bodies[strings.ToUpper(method)+" "+path], "SOON", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
				}
				for _, wrong := range []string{"%00", "a%00b", "%ff", "caf%e9"} {
					urls := []string{param.ReplaceAllString(path, wrong)}
					for _, p := range op.Parameters {
						if p.In == "query" && p.Schema.Type == "string" {
							urls = append(urls, param.ReplaceAllString(path, "concert")+"?"+p.Name+"="+wrong)
						}
					}
					if !param.MatchString(path) {
						urls = urls[1:]
					}
					for _, url := range urls {
						a := servetest.Call(strings.ToUpper(method), s.URL(listener)+url, body, "X-User-ID", "ann", "Idempotency-Key", strings.Repeat("k", 22))
						if a.Status >= http.StatusInternalServerError || a.Status < http.StatusOK {
							t.Errorf("%s: %s %s: %v", listener, method, url, a)
						}
					}
				}
			}
		}
	}
	if log := s.Output(); strings.Contains(log, "SQLSTATE") {
		t.Errorf("Postgres was asked:\n%s", regexp.MustCompile(`.*SQLSTATE.*`).FindAllString(log, 5))
	}
}

// bodies are accepted by the operations that need one.
var bodies = map[string]string{
	"PUT /v1/sales/{sale}":               `{"starts_at":"SOON","ends_at":"SOON","items":[{"item":"a","stock":1}]}`,
	"PUT /v1/sales/{sale}/items/{item}":  `{"stock":1}`,
	"POST /v1/sales/{sale}/orders":       `{"item":"ticket"}`,
	"POST /v1/orders/{order}/payment":    `{"reference":"r","outcome":"captured"}`,
	"PUT /v1/rooms/{room}":               `{"mode":"fifo","starts_at":"SOON"}`,
	"PUT /v1/semaphores/{name}":          `{"limit":1}`,
	"POST /v1/semaphores/{name}/permits": `{}`,
	"PUT /v1/bans/{kind}/{value}":        `{"for_ms":1000,"reason":"r"}`,
}
