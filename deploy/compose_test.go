package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/tidegate/tidegate/internal/serverversion"
)

// readCompose reads the parts of docker-compose.yml that file has fields for.
func readCompose(t *testing.T, file any) {
	t.Helper()
	content, err := os.ReadFile("../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, file); err != nil {
		t.Fatal(err)
	}
}

// Prometheus and Grafana start only when asked for, are seen from this machine only, and find their files.
func TestObserveProfile(t *testing.T) {
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
	readCompose(t, &file)
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

// Every image is of one version, and the stores take nobody without a password.
func TestImagesAndPasswords(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Image       string
			Command     []string
			Environment map[string]string
		}
	}
	readCompose(t, &file)
	images := 0
	version := regexp.MustCompile(`^[a-z/]+:v?\d+\.\d+(\.\d+)?(-[a-z]+)?$`)
	for name, s := range file.Services {
		if s.Image == "" { // built here
			continue
		}
		if images++; !version.MatchString(s.Image) {
			t.Errorf("%s is of image %q, which must name a version such as redis:7.2.16-bookworm", name, s.Image)
		}
	}
	if images < 4 {
		t.Errorf("only %d images", images)
	}
	const password = "${REDIS_PASSWORD:?}"
	if i := slices.Index(file.Services["redis"].Command, "--requirepass"); i < 0 || file.Services["redis"].Command[i+1] != password {
		t.Errorf("redis: %q", file.Services["redis"].Command)
	}
	for _, name := range []string{"api", "worker"} {
		if url := file.Services[name].Environment["REDIS_URL"]; !strings.Contains(url, ":"+password+"@") {
			t.Errorf("%s: REDIS_URL=%s", name, url)
		}
	}
	dockerfile, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(string(dockerfile), -1) {
		if from[1] != "scratch" && !version.MatchString(from[1]) {
			t.Errorf("Dockerfile: %s", from[1])
		}
	}
}

// The programs do not warn about the servers that the Compose files start.
func TestServersAreNotBelowTheLeastPatchedVersion(t *testing.T) {
	products := map[string]string{"redis": "Redis", "postgres": "Postgres"}
	servers := 0
	for _, file := range []string{"../docker-compose.yml", "hosts/compose.yaml", "hosts/sentinel.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, image := range regexp.MustCompile(`image: (redis|postgres):([0-9.]+)`).FindAllStringSubmatch(string(text), -1) {
			servers++
			server := serverversion.Server{Name: products[image[1]], Version: image[2]}
			if _, known := server.Line(); !known || server.Lacks() {
				t.Errorf("%s starts %s %s, which is unknown or lacks security fixes", file, server.Name, server.Version)
			}
		}
	}
	if servers != 6 {
		t.Errorf("%d servers, want 6", servers)
	}
}
