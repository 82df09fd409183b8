package deploy_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// Prometheus and Grafana start only when asked for, are seen from this machine only, and find their files.
func TestObserveProfile(t *testing.T) {
	content, err := os.ReadFile("../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Image          string
			Profiles       []string
			Ports, Volumes []string
			Entrypoint     []string
			Environment    map[string]string
			ReadOnly       bool `yaml:"read_only"`
		}
	}
	if err := yaml.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"prometheus", "grafana"} {
		s := file.Services[name]
		_, tag, _ := strings.Cut(s.Image, ":")
		if !slices.Equal(s.Profiles, []string{"observe"}) || strings.Count(tag, ".") != 2 || !s.ReadOnly || len(s.Ports) == 0 {
			t.Errorf("%s: %+v", name, s)
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s listens on %s", name, port)
			}
		}
		for _, volume := range s.Volumes {
			from, to, _ := strings.Cut(volume, ":")
			if !strings.HasPrefix(from, "./") {
				continue
			}
			if _, err := os.Stat(filepath.Join("..", from)); err != nil || !strings.HasSuffix(to, ":ro") {
				t.Errorf("%s mounts %s: %v", name, volume, err)
			}
		}
	}
	scrapes, err := os.ReadFile("prometheus/prometheus.yml")
	if err != nil {
		t.Fatal(err)
	}
	worker := file.Services["worker"].Environment["WORKER_LISTEN"]
	for _, want := range []string{"{names: [worker], type: A, port: " + worker[strings.LastIndexByte(worker, ':')+1:] + "}", "{credentials_file: /tmp/metrics-token}"} {
		if !strings.Contains(string(scrapes), want) {
			t.Errorf("prometheus.yml has no %s", want)
		}
	}
	if !strings.Contains(strings.Join(file.Services["prometheus"].Entrypoint, " "), ">/tmp/metrics-token ") {
		t.Error("nobody writes the token")
	}
}
