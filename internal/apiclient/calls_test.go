package apiclient

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPath(t *testing.T) {
	for want, segments := range map[string][]string{
		"/v1/sales/summer/open": {"v1", "sales", "summer", "open"}, "/v1/sales/a%2Fb%3Fc": {"v1", "sales", "a/b?c"}, "/v1/%2E%2E/%2E": {"v1", "..", "."},
	} {
		if got := Path(segments...); got != want {
			t.Errorf("%q: %s, want %s", segments, got, want)
		}
	}
}

// A response that reports no success is an error that has its problem, and no text of it gives orders to a terminal.
func TestRefused(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/problem":
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"title":"wrong\u001b[2J","reason":"invalid","detail":"see\nthere","errors":[{"location":"body.a","message":"is wrong"},{"file":"f","line":2,"column":3,"message":"x"}]}`)
		case "/elsewhere":
			http.Redirect(w, r, "/problem", http.StatusFound)
		case "/html":
			_, _ = io.WriteString(w, "<html>")
		case "/long":
			<-r.Context().Done()
		}
	}))
	defer s.Close()
	c := &Client{Base: s.URL, Timeout: 100 * time.Millisecond}
	const text = ": 422 wrong\ufffd[2J: see\ufffdthere\nbody.a: is wrong\nf:2:3: x"
	_, err := Call[struct{}](t.Context(), c, "POST", "/problem", nil)
	if !HasStatus(err, 422) || HasStatus(err, 404) || !HasReason(err, "invalid") || HasReason(err, "") || err.Error() != "POST "+s.URL+"/problem"+text {
		t.Errorf("%q", err)
	}
	if body, err := c.Stream(t.Context(), "/problem"); body != nil || !HasStatus(err, 422) || err.Error() != "GET "+s.URL+"/problem"+text {
		t.Errorf("%v, %q", body, err)
	}
	if _, err := Call[struct{}](t.Context(), c, "GET", "/elsewhere", nil); !HasStatus(err, 302) {
		t.Errorf("%v", err)
	}
	if _, err := Call[struct{}](t.Context(), c, "GET", "/html", nil); !errors.Is(err, ErrUnexpected) {
		t.Errorf("%v", err)
	}
	var timeout *url.Error
	if _, err := Call[struct{}](t.Context(), c, "GET", "/long", nil); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("%v", err)
	}
	if _, err := Call[struct{}](t.Context(), c, "DELETE", "/nothing", nil); err != nil { // an empty body
		t.Errorf("%v", err)
	}
	if _, err := Call[struct{}](t.Context(), c, "GET", "/nothing", nil); !errors.Is(err, ErrUnexpected) { // of another server
		t.Errorf("%v", err)
	}
}

func TestEach(t *testing.T) {
	var asked []string
	pages := map[string]string{"": `"b"`, "b": `"c"`, "c": `null`, "loop": `"loop"`}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		cursor := r.URL.Query().Get("cursor")
		_, _ = fmt.Fprintf(w, `{"items":[%q,%q],"next_cursor":%s}`, cursor+"1", cursor+"2", pages[cursor])
	}))
	defer s.Close()
	c := &Client{Base: s.URL}
	var all []string
	keep := func(item *string) error {
		all = append(all, *item)
		return nil
	}
	query := url.Values{"user": {"ann"}}
	if err := Each(t.Context(), c, "/list", query, keep); err != nil || strings.Join(all, " ") != "1 2 b1 b2 c1 c2" || len(query) != 1 {
		t.Errorf("%q, %v, %v", all, err, query)
	}
	if want := []string{"limit=1000&user=ann", "cursor=b&limit=1000&user=ann", "cursor=c&limit=1000&user=ann"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	if err := Each(t.Context(), c, "/list", url.Values{"cursor": {"loop"}}, keep); !errors.Is(err, ErrUnexpected) {
		t.Errorf("%v", err)
	}
	enough := errors.New("enough")
	all = nil
	if err := Each(t.Context(), c, "/list", nil, func(item *string) error { return errors.Join(enough, keep(item)) }); !errors.Is(err, enough) || len(all) != 1 {
		t.Errorf("%v after %q", err, all)
	}
}
