// Command bare answers every request with a few bytes and does nothing else. It measures the cost of HTTP alone, with net/http or Echo.
//
//	bare -kind echo -listen 127.0.0.1:8080
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"

	"github.com/labstack/echo/v4"
)

const answer = `{"status":"accepted"}`

func main() {
	kind := flag.String("kind", "echo", "echo or http")
	listen := flag.String("listen", "127.0.0.1:8080", "address")
	flag.Parse()
	var handler http.Handler
	switch *kind {
	case "echo":
		e := echo.New()
		e.GET("/readyz", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
		accept := func(c echo.Context) error { return c.JSONBlob(http.StatusOK, []byte(answer)) }
		e.POST("/v1/sales/:sale/orders", accept)
		e.GET("/v1/rooms/:room/place", accept)
		handler = e
	case "http":
		mux := http.NewServeMux()
		mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
		accept := func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(answer)) // the client may be gone
		}
		mux.HandleFunc("POST /v1/sales/{sale}/orders", accept)
		mux.HandleFunc("GET /v1/rooms/{room}/place", accept)
		handler = mux
	default:
		fmt.Fprintln(os.Stderr, "bare: -kind must be echo or http")
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, "bare:", http.ListenAndServe(*listen, handler))
	os.Exit(1)
}
