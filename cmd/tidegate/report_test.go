package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/testenv"
)

func TestReport(t *testing.T) {
	for want, vars := range map[string]map[string]string{
		`^concert-[0-9a-f-]{36}\.csv\n$`: {"REDIS_URL": testenv.Redis(t), "NAMESPACE": "report-cli"},
		"REDIS_URL is required":          {},
		"--queue-redis-url: ":            {"REDIS_URL": testenv.Redis(t), "QUEUE_REDIS_URL": "amqp://mq.test"},
	} {
		var out, said bytes.Buffer
		getenv := func(name string) string { return vars[name] }
		err := run(t.Context(), []string{"report", "concert"}, getenv, &out, &said)
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("%v: %q, %v", vars, &out, err)
		}
		if err != nil {
			continue
		}
		if !strings.Contains(said.String(), "because the sale does not exist, the worker logs an error") {
			t.Errorf("nobody has looked whether there is such a sale: %q", &said)
		}
		asJSON, err := call(t, getenv, "report", "concert", "--json")
		var answer struct{ File string }
		if wrong := json.Unmarshal([]byte(asJSON), &answer); wrong != nil || err != nil || !strings.HasPrefix(answer.File, "concert-") {
			t.Errorf("%v, %v: %q", wrong, err, asJSON)
		}
	}
}
