package serve

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

const koalaRules = `[dicts]
[rules]
rule : [direct] [uid=black] [time=1; count=0] [result=2; return=101]
rule : [count] [act=ask; uid=+] [time=3600; count=4] [result=2; return=201]
rule : [leak] [act=post; uid=+] [time=3600; count=4; erase1=1; erase2=2] [result=2; return=202]
rule : [base] [act=base; uid=+] [base=2; time=3600; count=2] [result=2; return=203]
[result]
1 : {"Ret_type":1, "Str_reason":"Allow"}
2 : {"Ret_type":2, "Err_no":10, "Str_reason":"Deny"}
`

// koalas are processes that share a Redis and a Koala rule file.
type koalas struct {
	t    testing.TB
	file string
	apis []*servetest.Program
}

func startKoalas(t testing.TB, redis string, n int) *koalas {
	t.Helper()
	k := &koalas{t: t, file: filepath.Join(t.TempDir(), "koala_rule.conf")}
	k.write(koalaRules)
	base := environment(redis, databases.Postgres(t))
	for range n {
		api := startAPI(t, func(name string) string {
			if name == "KOALA_FILE" {
				return k.file
			}
			return base(name)
		})
		servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", api.URL("internal")+"/readyz", "") })
		k.apis = append(k.apis, api)
	}
	return k
}

func (k *koalas) write(rules string) {
	k.t.Helper()
	if err := os.WriteFile(k.file, []byte(rules), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

func (k *koalas) get(i int, path string) servetest.Answer {
	return servetest.Call("GET", k.apis[i%len(k.apis)].URL("internal")+"/koala"+path, "")
}

// code returns the return number of a process's response.
func (k *koalas) code(i int, path string) int {
	k.t.Helper()
	a := k.get(i, path)
	var result struct {
		Code int `json:"Ret_code"`
	}
	if a.Status != http.StatusOK {
		k.t.Fatalf("%s: %v", path, a)
	}
	a.Into(k.t, &result)
	return result.Code
}

func (k *koalas) want(i int, path, body string) {
	k.t.Helper()
	if a := k.get(i, path); a.Status != http.StatusOK || string(a.Body) != body {
		k.t.Errorf("%s: %v, want %s", path, a, body)
	}
}

// TestKoalaOverTwoProcesses: two processes count together, whichever gets a request, and follow changes of the file.
func TestKoalaOverTwoProcesses(t *testing.T) {
	k := startKoalas(t, testenv.Redis(t), 2)
	// On a machine too busy for Redis to answer within the 150 ms of a decision, each process counts alone and admits more.
	user := ""
	for i := 0; i < 5 && user == ""; i++ {
		user = fmt.Sprint("ann-", i)
		for act, code := range map[string]int{"ask": 201, "post": 202, "base": 203} {
			in := 0
			for i := range 12 {
				if k.code(i, "/rule/browse?_writeThrough=yes&uid="+user+"&act="+act) == 0 {
					in++
				}
			}
			switch {
			case in < 4 || in == 12:
				t.Fatalf("%s: %d of 12 are let in, want 4", act, in)
			case in > 4 || k.code(1, "/rule/browse?uid="+user+"&act="+act) != code:
				t.Logf("%s: %d of 12 are let in", act, in)
				user = ""
			}
			if user == "" {
				break
			}
		}
	}
	if user == "" {
		t.Fatal("two processes do not count together")
	}
	// browse, the business, update
	done := 0
	for i := range 12 {
		if k.code(i, "/rule/browse?uid=8&act=ask") != 0 {
			continue
		}
		done++
		k.want(i+1, "/rule/update?uid=8&act=ask", `{"err_no":0,"err_msg":"OK"}`)
	}
	if done != 4 {
		t.Errorf("%d are done, want 4", done)
	}
	const ok = `{"err_no":0,"err_msg":"OK"}`
	k.want(0, "/rule/feedback?uid="+user+"&act=post&_feedbackType=erase2", ok)
	k.want(1, "/rule/feedback?uid="+user+"&act=post", ok)
	servetest.Until(t, http.StatusOK, func() servetest.Answer { // Redis may be too slow for a read
		a := k.get(0, "/rule/value?uid="+user+"&act=post&rule_no=202")
		if string(a.Body) != `{"err_no":0,"err_msg":"","cache_val":1}` {
			a.Status = 0
		}
		return a
	})
	// A process that has just refused learns of a refund at another one.
	servetest.Until(t, http.StatusOK, func() servetest.Answer {
		if k.code(1, "/rule/browse?uid="+user+"&act=post") == 0 {
			return servetest.Answer{Status: http.StatusOK}
		}
		return servetest.Answer{}
	})
	args := url.QueryEscape(`[{"Id":"0","Arg":"act%3Dask%26uid%3D` + user + `"},{"Id":"1","Arg":"act%3Dpost%26uid%3D` + user + `"},{"Id":"2","Arg":"act%3Dbase%26uid%3D` + user + `"},{"Id":"3","Arg":"uid%3Dblack"}]`)
	var several []struct {
		ID     string `json:"Id"`
		Result struct {
			Code int `json:"Ret_code"`
		}
	}
	k.get(0, "/multi/browse?argsJson="+args).Into(t, &several)
	for i, code := range []int{201, 0, 203, 101} {
		if len(several) != 4 || several[i].Result.Code != code {
			t.Errorf("%d: %+v, want %d", i, several, code)
		}
	}
	var all []struct {
		Code int `json:"Ret_code"`
	}
	k.get(1, "/rule/browse_complete?uid="+user+"&act=ask").Into(t, &all)
	if len(all) != 1 || all[0].Code != 201 {
		t.Errorf("%+v", all)
	}
	// Counts are kept when the file changes: the rule only differs in its limit.
	k.write(strings.Replace(koalaRules, "[time=3600; count=4] [result=2; return=201]", "[time=3600; count=5] [result=2; return=201]", 1))
	for i := range k.apis {
		servetest.Until(t, http.StatusOK, func() servetest.Answer {
			a := k.get(i, "/dump/policy")
			if !strings.Contains(string(a.Body), `"count":5`) {
				a.Status = 0
			}
			return a
		})
	}
	if a, b := k.code(0, "/rule/browse?_writeThrough=yes&uid="+user+"&act=ask"), k.code(1, "/rule/browse?_writeThrough=yes&uid="+user+"&act=ask"); a != 0 || b != 201 {
		t.Errorf("of a limit that grew by one: %d, then %d", a, b)
	}
	metrics := servetest.Call("GET", k.apis[0].URL("internal")+"/metrics", "")
	if !strings.Contains(string(metrics.Body), `tidegate_decisions_total{action="deny",rule="return-201",tier="anonymous"}`) {
		t.Error("metrics do not tell of write-throughs")
	}
}

// TestKoalaWithoutRedis: while Redis is down this is visible, lists work, and each process limits alone; afterwards everything
// is as before.
func TestKoalaWithoutRedis(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t, "--appendfsync", "always") // with everysec a slow disk delays the writes too, by up to two seconds
	k := startKoalas(t, redis.URL(), 1)
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return k.get(0, "/monitor/alive") })
	k.want(0, "/monitor/alive", `{"errno":0,"errmsg":"OK!"}`)
	for range 4 {
		k.want(0, "/rule/update?uid=7&act=ask", `{"err_no":0,"err_msg":"OK"}`)
	}
	redis.Kill()
	if a := k.get(0, "/monitor/alive"); a.Status != http.StatusInternalServerError || string(a.Body) != `{"errno":-1,"errmsg":"redis-error!"}` {
		t.Errorf("%v", a)
	}
	if a := k.get(0, "/rule/value?uid=7&act=ask&rule_no=201"); a.Status != http.StatusInternalServerError || string(a.Body) != `{"err_no":-1,"err_msg":"system error!"}` {
		t.Errorf("%v", a)
	}
	if code := k.code(0, "/rule/browse?uid=black&act=ask"); code != 101 {
		t.Errorf("the black list: %d", code)
	}
	in := 0
	for range 10 {
		if k.code(0, "/rule/browse?_writeThrough=yes&uid=8&act=ask") == 0 {
			in++
		}
	}
	if in != 4 {
		t.Errorf("%d are let in, want 4", in)
	}
	redis.Restart()
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return k.get(0, "/monitor/alive") })
	// Earlier counts are visible again as soon as the store is used.
	servetest.Until(t, http.StatusOK, func() servetest.Answer {
		a := k.get(0, "/rule/browse?uid=7&act=ask")
		if !strings.Contains(string(a.Body), `"Ret_code":201,`) {
			a.Status = 0
		}
		return a
	})
	value := servetest.Until(t, http.StatusOK, func() servetest.Answer { return k.get(0, "/rule/value?uid=7&act=ask&rule_no=201") })
	if string(value.Body) != `{"err_no":0,"err_msg":"","cache_val":4}` {
		t.Errorf("%v", value)
	}
}
