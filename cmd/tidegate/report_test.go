package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/testenv"
)

func TestReport(t *testing.T) {
	for want, vars := range map[string]map[string]string{
		`^concert-[0-9a-f-]{36}\.csv\n$`: {"REDIS_URL": testenv.Redis(t), "NAMESPACE": "report-cli"},
		"REDIS_URL: is not set":          {},
		"--queue-redis-url: ":            {"REDIS_URL": testenv.Redis(t), "QUEUE_REDIS_URL": "amqp://mq.test"},
	} {
		var out bytes.Buffer
		err := run(t.Context(), []string{"report", "concert"}, func(name string) string { return vars[name] }, &out, &out)
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("%v: %q, %v", vars, &out, err)
		}
	}
}
