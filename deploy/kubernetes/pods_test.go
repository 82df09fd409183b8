package kubernetes_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/serve"
	core "k8s.io/api/core/v1"
)

// pods returns the templates by the name of their only container, which is the program's.
func (m *manifests) pods(t *testing.T) map[string]core.PodTemplateSpec {
	t.Helper()
	out := map[string]core.PodTemplateSpec{}
	add := func(p core.PodTemplateSpec) {
		if len(p.Spec.Containers) != 1 {
			t.Fatalf("%d containers", len(p.Spec.Containers))
		}
		out[p.Spec.Containers[0].Name] = p
	}
	for _, d := range m.deployments {
		add(d.Spec.Template)
	}
	for _, j := range m.jobs {
		add(j.Spec.Template)
	}
	return out
}

// environment returns a container's variables.
func (m *manifests) environment(t *testing.T, c core.Container) map[string]string {
	t.Helper()
	vars := map[string]string{}
	for _, from := range c.EnvFrom {
		if from.ConfigMapRef != nil {
			for name, value := range m.configs[from.ConfigMapRef.Name].Data {
				vars[name] = value
			}
			continue
		}
		for name, value := range m.secrets[from.SecretRef.Name].StringData {
			vars[name] = value
		}
	}
	for _, e := range c.Env {
		vars[e.Name] = e.Value
		if e.ValueFrom != nil {
			ref := e.ValueFrom.SecretKeyRef
			value, ok := m.secrets[ref.Name].StringData[ref.Key]
			if !ok {
				t.Errorf("%s: the secret %s has no %s", e.Name, ref.Name, ref.Key)
			}
			vars[e.Name] = value
		}
	}
	return vars
}

type program func(args []string, getenv func(string) string, stderr io.Writer) (*config.Config, error)

// known returns the variables that a program reads, from its help.
func known(t *testing.T, p program) []string {
	t.Helper()
	var help bytes.Buffer
	_, _ = p([]string{"-h"}, func(string) string { return "" }, &help)
	var names []string
	for _, found := range regexp.MustCompile(`\[([A-Z0-9_]+)\]`).FindAllStringSubmatch(help.String(), -1) {
		names = append(names, found[1])
	}
	if len(names) < 10 {
		t.Fatalf("the help has only %q", names)
	}
	return names
}

// The programs refuse the secrets of the template, and accept the settings with others. Their ports are the containers'.
func TestSettings(t *testing.T) {
	m := build(t)
	pods := m.pods(t)
	all := known(t, config.API)
	for name, p := range map[string]program{"api": config.API, "worker": config.Worker} {
		c := pods[name].Spec.Containers[0]
		if !slices.Equal(c.Command, []string{"/" + name}) || c.Args != nil {
			t.Errorf("%s: command %q, arguments %q", name, c.Command, c.Args)
		}
		vars := m.environment(t, c)
		for v := range vars {
			if !slices.Contains(all, v) {
				t.Errorf("%s: no program reads %s", name, v)
			}
		}
		for _, e := range c.Env {
			if !slices.Contains(known(t, p), e.Name) {
				t.Errorf("%s does not read %s", name, e.Name)
			}
		}
		getenv := func(name string) string {
			if name == "RULES_FILE" && vars[name] == "/rules/rules.yaml" {
				return "rules.yaml"
			}
			return vars[name]
		}
		if _, err := p(nil, getenv, io.Discard); err == nil || !strings.Contains(err.Error(), "must not contain a secret published") {
			t.Errorf("%s with the secrets of the template: %v", name, err)
		}
		cfg, err := p(nil, func(name string) string { return strings.ReplaceAll(getenv(name), "demo-only", "0123456789") }, io.Discard)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := map[string]string{"public": cfg.Listen, "internal": cfg.InternalListen}
		if name == "worker" {
			want = map[string]string{"probes": cfg.WorkerListen}
		}
		for _, port := range c.Ports {
			host, number, _ := net.SplitHostPort(want[port.Name])
			if host != "" || number != strconv.Itoa(int(port.ContainerPort)) {
				t.Errorf("%s: the port %s is %d, and the program listens on %q", name, port.Name, port.ContainerPort, want[port.Name])
			}
		}
		if len(c.Ports) != len(want) {
			t.Errorf("%s: ports %+v, want %v", name, c.Ports, want)
		}
	}
	migrate := pods["migrate"].Spec.Containers[0]
	if vars := m.environment(t, migrate); len(vars) != 1 || vars["DATABASE_URL"] == "" || !slices.Equal(migrate.Command, []string{"/tidegate", "migrate"}) {
		t.Errorf("%q with %v", migrate.Command, vars)
	}
	mount := pods["api"].Spec.Containers[0].VolumeMounts[0]
	volume := pods["api"].Spec.Volumes[0]
	if mount.Name != volume.Name || mount.MountPath != "/rules" || mount.SubPath != "" || m.configs[volume.ConfigMap.Name].Data["rules.yaml"] == "" {
		t.Errorf("rules: %+v, %+v", mount, volume)
	}
}

// A pod is killed only after the program had its time, and probes wait as long as a start may take.
func TestLifetimes(t *testing.T) {
	const closing = 2 * time.Second // connections that an aborted shutdown left in use
	for name, p := range build(t).pods(t) {
		c := p.Spec.Containers[0]
		if name == "migrate" {
			continue
		}
		var stop time.Duration
		if c.Lifecycle != nil {
			stop = time.Duration(c.Lifecycle.PreStop.Sleep.Seconds) * time.Second
		}
		if name == "api" && stop == 0 {
			t.Error("api: without preStop, new connections arrive after the listener has closed")
		}
		grace := time.Duration(*p.Spec.TerminationGracePeriodSeconds) * time.Second
		if need := stop + serve.DefaultShutdown + closing; grace <= need {
			t.Errorf("%s: %v of grace, needs more than %v", name, grace, need)
		}
		if start := time.Duration(c.StartupProbe.PeriodSeconds*c.StartupProbe.FailureThreshold) * time.Second; start <= serve.StartTimeout {
			t.Errorf("%s: %v to start, and it waits for servers for %v", name, start, serve.StartTimeout)
		}
		for probe, path := range map[*core.Probe]string{c.StartupProbe: "/livez", c.LivenessProbe: "/livez", c.ReadinessProbe: "/readyz"} {
			if probe.HTTPGet.Path != path || !has(c, probe.HTTPGet.Port.StrVal) {
				t.Errorf("%s: %+v, want %s", name, probe.HTTPGet, path)
			}
		}
	}
}

func has(c core.Container, port string) bool {
	return slices.ContainsFunc(c.Ports, func(p core.ContainerPort) bool { return p.Name == port })
}

// Pods meet the restricted standard of the namespace, run as the image's user, and all have the same image.
func TestRights(t *testing.T) {
	dockerfile, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	images := map[string]bool{}
	for name, p := range build(t).pods(t) {
		pod, c := p.Spec.SecurityContext, p.Spec.Containers[0]
		own := c.SecurityContext
		images[c.Image] = true
		if !*pod.RunAsNonRoot || pod.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault ||
			!strings.Contains(string(dockerfile), fmt.Sprintf("\nUSER %d:%d\n", *pod.RunAsUser, *pod.RunAsGroup)) {
			t.Errorf("%s: %+v", name, pod)
		}
		if *own.AllowPrivilegeEscalation || !*own.ReadOnlyRootFilesystem || !slices.Equal(own.Capabilities.Drop, []core.Capability{"ALL"}) || own.Capabilities.Add != nil {
			t.Errorf("%s: %+v", name, own)
		}
		if *p.Spec.AutomountServiceAccountToken || *p.Spec.EnableServiceLinks || c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
			t.Errorf("%s: %+v", name, p.Spec)
		}
	}
	if len(images) != 1 || images["tidegate"] {
		t.Errorf("images %v, want the one of kustomization.yaml", images)
	}
}
