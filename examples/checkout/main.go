// Command checkout is a shop's own checkout behind a waiting room of Tidegate: it verifies passes itself, without asking Tidegate
// about each request; see README.md.
package main

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"time"
)

func main() {
	passes := &Passes{
		Room: cmp.Or(os.Getenv("ROOM"), "shoes"),
		Keys: cmp.Or(os.Getenv("TIDEGATE_URL"), "http://127.0.0.1:8080") + "/.well-known/jwks.json",
	}
	server := &http.Server{Addr: cmp.Or(os.Getenv("LISTEN"), "127.0.0.1:8090"), Handler: checkout(passes), ReadHeaderTimeout: 5 * time.Second}
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
	os.Exit(1)
}

// checkout serves whoever has a pass.
func checkout(passes *Passes) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /checkout", func(w http.ResponseWriter, r *http.Request) {
		subject, err := passes.Verify(r.Context(), r.Header.Get("X-Waiting-Room-Pass"))
		if err != nil {
			http.Error(w, "a pass of the waiting room "+passes.Room+" is required: "+err.Error(), http.StatusForbidden)
			return
		}
		fmt.Fprintf(w, "welcome, %s\n", subject)
	})
	return mux
}
