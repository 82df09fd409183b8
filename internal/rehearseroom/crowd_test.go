package rehearseroom_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/rehearseroom"
	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

// rehearse sends a crowd through the room hall, and checks that every property was judged, and held.
func (h *house) rehearse(o rehearseroom.Options) {
	h.Helper()
	o.Sale, o.Room, o.Seed = sale, "hall", 1
	o.Late, o.Silent, o.Devices, o.Snipers, o.Reloads, o.HangUps, o.Bots = 0.2, 0.4, 0.3, 0.3, 0.2, 0.2, 0.1
	r, err := rehearseroom.Run(h.Context(), o)
	if err != nil {
		h.Fatal(err)
	}
	if !r.OK() {
		var table strings.Builder
		_ = r.WriteTable(&table) // a Builder does not fail
		h.Errorf("%s\n%+v", table.String(), r.Findings)
	}
}

// W1 to W5, W7 to W9, W14, W17, W18, W24 to W27, W29, W32: everything that the rehearsal judges holds over two processes.
func TestACrowd(t *testing.T) {
	t.Parallel()
	h := install(t, 2)
	h.startWorker()
	h.rehearse(rehearseroom.Options{
		PublicURLs: []string{h.apis[0].URL("public"), h.apis[1].URL("public")}, InternalURL: h.apis[0].URL("internal"), Stock: 20, Visitors: 120,
	})
}

// W33: the same while Redis loses everything and each of two APIs is killed: the first while people gather, the second while turns are given.
func TestACrowdWhileProcessesDie(t *testing.T) {
	t.Parallel()
	h := prepare(t)
	server := testenv.StartRedis(t)
	h.env["REDIS_URL"] = server.URL()
	bin := testenv.Programs(t)
	var public, internal []string
	start := make([]func() *servetest.Program, 2)
	for i := range start {
		env := []string{}
		h.env["LISTEN"], h.env["INTERNAL_LISTEN"] = testenv.FreeAddr(), testenv.FreeAddr()
		for name, value := range h.env {
			env = append(env, name+"="+value)
		}
		public, internal = append(public, "http://"+h.env["LISTEN"]), append(internal, "http://"+h.env["INTERNAL_LISTEN"])
		start[i] = func() *servetest.Program { return servetest.Exec(t, bin+"/api", env...) }
		h.apis = append(h.apis, start[i]())
	}
	h.startWorker()
	for _, url := range internal {
		servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", url+"/readyz", "") })
	}
	// await waits until the room has got so far.
	await := func(far func(joined, served int64) bool) {
		servetest.Until(t, http.StatusOK, func() servetest.Answer {
			for _, url := range public {
				a := servetest.Call("GET", url+room, "")
				var doc struct{ Joined, Served int64 }
				if a.Status == http.StatusOK && json.Unmarshal(a.Body, &doc) == nil && far(doc.Joined, doc.Served) {
					return a
				}
			}
			return servetest.Answer{}
		})
	}
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	faults := make(chan struct{})
	go func() {
		defer close(faults)
		await(func(joined, _ int64) bool { return joined >= 30 })
		h.apis[0].Kill()
		h.apis[0] = start[0]()
		await(func(_, served int64) bool { return served > 0 })
		if err := rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Error(err)
		}
		h.apis[1].Kill()
		h.apis[1] = start[1]()
	}()
	h.rehearse(rehearseroom.Options{PublicURLs: public, InternalURL: internal[1], Stock: 10, Visitors: 100, Claim: 4 * time.Second, Gather: 4 * time.Second})
	<-faults
}

// A crowd that needs longer to join than planned is drawn all the same: the start waits for it.
func TestTheStartWaitsForTheCrowd(t *testing.T) {
	t.Parallel()
	h := install(t, 1)
	h.startWorker()
	api, err := url.Parse(h.apis[0].URL("public"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(api) }}
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == place {
			time.Sleep(2500 * time.Millisecond)
		}
		proxy.ServeHTTP(w, r)
	}))
	defer slow.Close()
	h.rehearse(rehearseroom.Options{PublicURLs: []string{slow.URL}, InternalURL: h.apis[0].URL("internal"), Stock: 10, Visitors: 60, Gather: 2 * time.Second})
}
