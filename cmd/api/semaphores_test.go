package main

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// The embedded server grants and hands over permits like the others, and after a restart it waits for possible holders.
func TestEmbeddedSemaphores(t *testing.T) {
	folder := t.TempDir()
	p := start(t, folder, io.Discard)
	putOnSale(t, p, "concert", 5)
	base := p.URL("internal") + "/v1/semaphores/report"
	acquire := func(body string) (a servetest.Answer, id string) {
		t.Helper()
		a = servetest.Call("POST", base+"/permits", body)
		var got struct {
			ID string `json:"permit_id"`
		}
		a.Into(t, &got)
		return a, got.ID
	}
	first, id := acquire(`{"holder":"a","weight":2}`)
	if first.Status != http.StatusCreated {
		t.Fatal(first)
	}
	if full, _ := acquire(`{"holder":"b"}`); full.Status != http.StatusServiceUnavailable || !bytes.Contains(full.Body, []byte(`"position":1`)) {
		t.Error(full)
	}

	waited := make(chan servetest.Answer, 1)
	go func() {
		waited <- servetest.Call("POST", base+"/permits", `{"holder":"waits","wait_ms":30000}`)
	}()
	servetest.Until(t, http.StatusOK, func() servetest.Answer {
		a := servetest.Call("GET", base, "")
		if !bytes.Contains(a.Body, []byte(`"waiting":1`)) {
			a.Status = 0
		}
		return a
	})
	if a := servetest.Call("PUT", base+"/permits/"+id, ""); a.Status != http.StatusOK {
		t.Error(a)
	}
	if a := servetest.Call("DELETE", base+"/permits/"+id, ""); a.Status != http.StatusNoContent {
		t.Error(a)
	}
	if a := <-waited; a.Status != http.StatusCreated {
		t.Error(a)
	}
	if a := servetest.Call("GET", p.URL("internal")+"/v1/sales/concert/orders.csv", ""); a.Status != http.StatusOK || !strings.HasPrefix(string(a.Body), "order_id,") {
		t.Error(a)
	}
	if a := servetest.Call("PUT", base, `{"limit":3,"lease_ms":3600000}`); a.Status != http.StatusOK {
		t.Error(a)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}

	p = start(t, folder, io.Discard)
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", p.URL("internal")+"/readyz", "") })
	base = p.URL("internal") + "/v1/semaphores/report"
	a := servetest.Call("GET", base, "")
	if a.Status != http.StatusOK || !bytes.Contains(a.Body, []byte(`"limit":3,`)) || bytes.Contains(a.Body, []byte(`"quiet_ms":0,`)) {
		t.Errorf("what was set is forgotten: %v", a)
	}
	if full, _ := acquire(`{"holder":"a"}`); full.Status != http.StatusServiceUnavailable {
		t.Errorf("granted while holders may be there: %v", full)
	}
}

// The semaphore of the reports is built in; the rules file overrides that, and an operator overrides both. No other semaphore is.
func TestReportNeedsNoDeclaration(t *testing.T) {
	const limit, declared = "version: 1\nrules: [{name: all, subject: ip, limit: 1000, window: 1m}]\n", "semaphores: {report: {limit: 5, lease: 20s}}\n"
	rules := writeRules(t, limit)
	p := start(t, filepath.Join(t.TempDir(), "data"), io.Discard, "-rules-file", rules)
	putOnSale(t, p, "concert", 5)
	report := p.URL("internal") + "/v1/semaphores/report"
	stands := func(want string) {
		t.Helper()
		servetest.Until(t, http.StatusOK, func() servetest.Answer {
			a := servetest.Call("GET", report, "")
			if !bytes.Contains(a.Body, []byte(want)) {
				a.Status = 0
			}
			return a
		})
	}
	if a := servetest.Call("GET", p.URL("internal")+"/v1/sales/concert/orders.csv", ""); a.Status != http.StatusOK {
		t.Fatalf("a report: %v", a)
	}
	stands(`"limit":2,`)
	if err := os.WriteFile(rules, []byte(limit+declared), 0o600); err != nil {
		t.Fatal(err)
	}
	if a := servetest.Call("POST", p.URL("internal")+"/v1/rules/reload", ""); a.Status != http.StatusOK {
		t.Fatal(a)
	}
	stands(`"limit":5,`)
	if a := servetest.Call("PUT", report, `{"limit":7}`); a.Status != http.StatusOK {
		t.Fatal(a)
	}
	stands(`"limit":7,`)
	if a := servetest.Call("DELETE", report, ""); a.Status >= 300 {
		t.Fatal(a)
	}
	stands(`"limit":5,`)
	if a := servetest.Call("POST", p.URL("internal")+"/v1/semaphores/other/permits", `{"holder":"a"}`); a.Status != http.StatusNotFound ||
		!bytes.Contains(a.Body, []byte(`"unknown_semaphore"`)) || !bytes.Contains(a.Body, []byte("other")) {
		t.Errorf("a semaphore that nobody declared: %v", a)
	}
}
