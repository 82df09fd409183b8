package embedded

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// Koala's endpoints need neither Redis nor Postgres. They answer by the counters of the process.
func TestKoalaEmbedded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "koala_rule.conf")
	if err := os.WriteFile(file, []byte(`[dicts]
[rules]
rule : [leak] [uid=+] [time=3600; count=2; erase1=1] [result=2; return=201]
rule : [count] [uid=+] [time=86400; count=3] [result=2; return=202]
[result]
2 : {"Ret_type":2, "Err_no":10, "Str_reason":"Deny"}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	at := make(chan Place, 1)
	p := servetest.Start(t, func(ctx context.Context, stderr io.Writer) error {
		cfg, err := config.API([]string{
			"-listen", "127.0.0.1:0", "-internal-listen", "127.0.0.1:0", "-tidegate-data", t.TempDir(), "-koala-file", file, "-log-format", "json",
		}, func(string) string { return "" }, stderr)
		if err != nil {
			return err
		}
		return Run(ctx, cfg, cfg.Logger(stderr), func(p Place) { at <- p })
	})
	base := p.URL("internal") + "/koala"
	<-at
	none := `"Need_vcode":0,"Vcode_len":0,"Vcode_type":0,"Other":"","Version":0}`
	within := `{"Ret_type":1,"Ret_code":0,"Err_no":0,"Err_msg":"","Str_reason":"Allow",` + none
	for i, step := range []struct{ path, want string }{
		{"/rule/browse?uid=7&_writeThrough=yes", within},
		{"/rule/browse?uid=7&_writeThrough=yes", within},
		{"/rule/browse?uid=7&_writeThrough=yes", `{"Ret_type":2,"Ret_code":201,"Err_no":10,"Err_msg":"","Str_reason":"Deny",` + none},
		{"/rule/feedback?uid=7", `{"err_no":0,"err_msg":"OK"}`},
		{"/rule/browse?uid=7", within},
		{"/rule/update?uid=7", `{"err_no":0,"err_msg":"OK"}`},
		{"/rule/browse_complete?uid=7", `[{"Ret_type":2,"Ret_code":201,"Err_no":10,"Err_msg":"","Str_reason":"Deny",` + none +
			`,{"Ret_type":2,"Ret_code":202,"Err_no":10,"Err_msg":"","Str_reason":"Deny",` + none + `]`},
		{"/rule/value?uid=7&rule_no=202", `{"err_no":0,"err_msg":"","cache_val":3}`},
		{"/multi/browse?argsJson=[%7B%22Id%22:%22a%22,%22Arg%22:%22uid%253D8%22%7D]", `[{"ID":"a","Id":"a","Result":` + within + `}]`},
		{"/monitor/alive", `{"errno":0,"errmsg":"OK!"}`},
	} {
		if a := servetest.Call("GET", base+step.path, ""); a.Status != 200 || string(a.Body) != step.want {
			t.Errorf("step %d, %s: %v\nwant %s", i, step.path, a, step.want)
		}
	}
}
