// Command login is a login page protected by Tidegate: the backend's two calls before and after it checks a password, the widget, and the
// cookie that lets the owner in while others guess. It uses only Tidegate's HTTP API and the widget's files; see README.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"golang.org/x/crypto/bcrypt"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("login", flag.ContinueOnError)
	base := flags.String("tidegate", "http://127.0.0.1:8081", "where Tidegate's internal listener is")
	token := flags.String("token", "", "that Tidegate asks for, with the role admit")
	listen := flags.String("listen", "127.0.0.1:8090", "where to serve the page")
	https := flags.Bool("https", false, "browsers reach the page by HTTPS, through a proxy that speaks it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	const name, password = "ada", "correct horse"
	accounts, err := newAccounts(map[string]string{name: password}, bcrypt.DefaultCost)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "http://%s/login: the name is %q and the password %q\n", *listen, name, password)
	server := &http.Server{
		Addr:              *listen,
		Handler:           newSite(newTidegate(*base, *token), accounts, *https),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second, // limits slow clients, which would hold connections
		WriteTimeout:      45 * time.Second, // a form and its slowest processing: three calls of Tidegate, each tried twice
		IdleTimeout:       time.Minute,
	}
	return server.ListenAndServe()
}
