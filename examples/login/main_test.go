package main

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/embedded"
	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

const owner, password = "ada", "correct horse"

// start serves the page in front of a separate Tidegate with its built-in rules, and returns the URLs of both.
func start(t *testing.T) (page, tidegate string) {
	t.Helper()
	folder := t.TempDir()
	p := servetest.Start(t, func(ctx context.Context, stderr io.Writer) error {
		args := []string{"-listen", "127.0.0.1:0", "-internal-listen", "127.0.0.1:0", "-tidegate-data", folder, "-log-format", "json"}
		cfg, err := config.API(args, func(string) string { return "" }, stderr)
		if err != nil {
			return err
		}
		return embedded.Run(ctx, cfg, cfg.Logger(stderr), func(embedded.Place) {})
	})
	tidegate = p.URL("internal")
	return serve(t, tidegate), tidegate
}

func serve(t *testing.T, tidegate string) string {
	t.Helper()
	accounts, err := newAccounts(map[string]string{owner: password}, bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	client := newTidegate(tidegate, "")
	server := httptest.NewServer(newSite(client, accounts, false))
	t.Cleanup(func() {
		server.Close()
		client.client.CloseIdleConnections()
	})
	return server.URL
}

// A visitor has cookies and no JavaScript, and follows no redirects.
type visitor struct {
	t      *testing.T
	page   string
	client *http.Client
}

func newVisitor(t *testing.T, page string) *visitor {
	jar, _ := cookiejar.New(nil) // without options it never fails
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &visitor{t, page, &http.Client{
		Jar: jar, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (v *visitor) login(name, password, altcha string) answer {
	v.t.Helper()
	form := url.Values{"name": {name}, "password": {password}, "altcha": {altcha}}
	return v.do("POST", "/login", form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
}

func (v *visitor) do(method, path, body string, headers ...string) answer {
	v.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, v.page+path, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := v.client.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(content)}
}

// report reports failures for name to Tidegate, one from each address.
func report(t *testing.T, tidegate, name string, addresses ...string) {
	t.Helper()
	v := newVisitor(t, tidegate)
	for _, ip := range addresses {
		a := v.do("POST", "/v1/login/attempts", `{"name":"`+name+`","ip":"`+ip+`","mode":"report"}`, "Content-Type", "application/json")
		if a.status != http.StatusOK {
			t.Fatal(a)
		}
	}
}
