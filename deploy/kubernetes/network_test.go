package kubernetes_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func matches(t *testing.T, s *meta.LabelSelector, of map[string]string) bool {
	t.Helper()
	selector, err := meta.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return selector.Matches(labels.Set(of))
}

// selected returns the programs that a selector selects.
func (m *manifests) selected(t *testing.T, s *meta.LabelSelector) (names []string) {
	t.Helper()
	for name, p := range m.pods(t) {
		if matches(t, s, p.Labels) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestSelectors(t *testing.T) {
	m := build(t)
	one := func(what string, s *meta.LabelSelector, program string) {
		t.Helper()
		if got := m.selected(t, s); !slices.Equal(got, []string{program}) {
			t.Errorf("%s selects %q, want %s", what, got, program)
		}
	}
	for name, program := range map[string]string{"tidegate-api": "api", "tidegate-worker": "worker"} {
		one("deployment "+name, m.deployments[name].Spec.Selector, program)
		one("spread of "+name, m.deployments[name].Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector, program)
		one("budget "+name, m.budgets[name].Spec.Selector, program)
		one("policy "+name, &m.policies[name].Spec.PodSelector, program)
	}
	for name, program := range map[string]string{"tidegate": "api", "tidegate-internal": "api", "tidegate-worker": "worker"} {
		s := m.services[name].Spec
		one("service "+name, &meta.LabelSelector{MatchLabels: s.Selector}, program)
		if port := s.Ports[0].TargetPort.StrVal; len(s.Ports) != 1 || !has(m.pods(t)[program].Spec.Containers[0], port) {
			t.Errorf("service %s: %+v", name, s.Ports)
		}
	}
	scaler := m.scalers["tidegate-api"].Spec
	if m.deployments[scaler.ScaleTargetRef.Name] == nil || m.deployments[scaler.ScaleTargetRef.Name].Spec.Replicas != nil || *scaler.MinReplicas < 2 {
		t.Errorf("%+v", scaler)
	}
}

// Buyers reach the public port only. The programs reach names, Redis and Postgres only.
func TestNetworkPolicies(t *testing.T) {
	m := build(t)
	if port := m.services["tidegate"].Spec.Ports[0].TargetPort.StrVal; port != "public" {
		t.Errorf("the service for the ingress opens the port %s", port)
	}
	for name, p := range m.policies {
		for _, rule := range p.Spec.Ingress {
			if len(rule.From) == 0 || len(rule.Ports) != 1 {
				t.Fatalf("%s: %+v", name, rule)
			}
			port := rule.Ports[0].Port.StrVal
			for _, program := range m.selected(t, &p.Spec.PodSelector) {
				if !has(m.pods(t)[program].Spec.Containers[0], port) {
					t.Errorf("%s: %s has no port %s", name, program, port)
				}
			}
			for _, peer := range rule.From {
				if port != "public" && (peer.PodSelector == nil || len(peer.PodSelector.MatchLabels) == 0 || peer.IPBlock != nil) {
					t.Errorf("%s: %s is open for %+v", name, port, peer)
				}
			}
		}
	}
	egress := m.policies["tidegate-egress"].Spec
	if got := m.selected(t, &egress.PodSelector); len(got) != 3 || !slices.Contains(egress.PolicyTypes, networking.PolicyTypeEgress) || !slices.Contains(egress.PolicyTypes, networking.PolicyTypeIngress) {
		t.Errorf("%q, %v", got, egress.PolicyTypes)
	}
	var ports []int32
	for _, rule := range egress.Egress {
		if len(rule.To) != 1 || rule.To[0].PodSelector == nil {
			t.Errorf("%+v", rule)
		}
		for _, p := range rule.Ports {
			ports = append(ports, p.Port.IntVal)
		}
	}
	if !slices.Equal(ports, []int32{53, 53, 6379, 5432}) {
		t.Errorf("open outwards: %v", ports)
	}
}

// Every monitor selects one service, with a token where one is needed, and gives the name of the job that alerts and dashboard select.
func TestMonitors(t *testing.T) {
	m := build(t)
	file, err := os.ReadFile("../prometheus/prometheus.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range regexp.MustCompile(`job_name: (\S+)`).FindAllStringSubmatch(string(file), -1) {
		monitor := m.monitors[job[1]]
		if monitor == nil {
			t.Errorf("no monitor for %s", job[1])
			continue
		}
		var found []*core.Service
		for _, s := range m.services {
			if matches(t, &monitor.Spec.Selector, s.Labels) {
				found = append(found, s)
			}
		}
		endpoint := monitor.Spec.Endpoints[0]
		if len(found) != 1 || found[0].Labels[monitor.Spec.JobLabel] != job[1] || found[0].Spec.Ports[0].Name != endpoint.Port {
			t.Errorf("%s selects %v, port %s", job[1], found, endpoint.Port)
		}
		if a := endpoint.Authorization; job[1] == "tidegate-api" && (a == nil || m.secrets[a.Credentials.Name].StringData[a.Credentials.Key] == "") {
			t.Errorf("%s: %+v", job[1], a)
		}
	}
}
