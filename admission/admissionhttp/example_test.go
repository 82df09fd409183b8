package admissionhttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/admissionhttp"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store/memorystore"
)

func Example() {
	set, err := rules.Parse("rules.yaml", []byte(`
version: 1
rules:
  - {name: reading, match: {route: "/articles/**", method: GET}, subject: [caller], limit: 2, window: 1m, public: true}
`))
	if err != nil {
		panic(err)
	}
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	store := memorystore.New(memorystore.Options{Now: func() time.Time { return noon }})
	gate, err := admission.NewWithStore(store, set, admission.Options{Secret: []byte("16 random bytes or more")})
	if err != nil {
		panic(err)
	}
	balancers := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	admit := admissionhttp.Middleware(gate, func(r *http.Request) (admission.Request, error) {
		return admission.Request{IP: admissionhttp.ClientAddress(r, balancers), Route: r.URL.Path, Method: r.Method}, nil
	})

	mux := http.NewServeMux()
	mux.HandleFunc("GET /articles/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "article ", r.PathValue("id"))
	})
	handler := admit(mux)
	for range 3 {
		r := httptest.NewRequest("GET", "/articles/7", nil)
		r.RemoteAddr = "10.0.0.1:40000"
		r.Header.Set("X-Forwarded-For", "203.0.113.9, 192.0.2.1") // the first may be a lie
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Printf("%d %s Retry-After: %q\n", w.Code, w.Header().Get("RateLimit"), w.Header().Get("Retry-After"))
		fmt.Println(strings.TrimSpace(w.Body.String()))
	}
	// Output:
	// 200 "reading";r=1;t=60 Retry-After: ""
	// article 7
	// 200 "reading";r=0;t=60 Retry-After: ""
	// article 7
	// 429 "reading";r=0;t=60 Retry-After: "60"
	// {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","status":429,"reason":"rate_limited","violated-policies":["reading"]}
}

// What the business could not do is given back.
func ExampleDecisionOf() {
	gate, err := admission.NewWithStore(memorystore.New(memorystore.Options{}), rules.Default(),
		admission.Options{Secret: []byte("16 random bytes or more")})
	if err != nil {
		panic(err)
	}
	var handler http.HandlerFunc = func(w http.ResponseWriter, r *http.Request) {
		if d, ok := admissionhttp.DecisionOf(r.Context()); ok {
			if err := gate.Refund(r.Context(), d); err != nil {
				fmt.Println(err)
			}
		}
		http.Error(w, "out of paper", http.StatusServiceUnavailable)
	}
	admit := admissionhttp.Middleware(gate, func(r *http.Request) (admission.Request, error) {
		return admission.Request{User: "ann", Route: r.URL.Path, Method: r.Method}, nil
	})
	w := httptest.NewRecorder()
	admit(handler).ServeHTTP(w, httptest.NewRequest("POST", "/v1/sales/spring/orders", nil))
	fmt.Println(w.Code)
	// Output: 503
}
