package serve

import (
	"regexp"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

func TestProgramsLogTheVersionsOfTheirServers(t *testing.T) {
	t.Parallel()
	env := environment(testenv.Redis(t), testenv.Postgres(t))
	for _, p := range []*servetest.Program{startAPI(t, env), startWorker(t, env)} {
		p.Logged("listening")
		for _, line := range []string{
			`"msg":"server","variable":"REDIS_URL","server":"(Redis|Valkey)","server_version":"\d+\.\d+`,
			`"msg":"server","variable":"DATABASE_URL","server":"Postgres","server_version":"\d+`,
		} {
			if !regexp.MustCompile(line).MatchString(p.Output()) {
				t.Errorf("no %s in\n%s", line, p.Output())
			}
		}
	}
}
