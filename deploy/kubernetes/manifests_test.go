// Package kubernetes_test checks the manifests without a cluster: it builds them as kubectl apply -k does, decodes every document strictly
// into the types of the API, and compares documents with each other and with the programs.
package kubernetes_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// manifests are the documents by name.
type manifests struct {
	namespaces  map[string]*core.Namespace
	configs     map[string]*core.ConfigMap
	secrets     map[string]*core.Secret
	services    map[string]*core.Service
	deployments map[string]*apps.Deployment
	jobs        map[string]*batch.Job
	scalers     map[string]*autoscaling.HorizontalPodAutoscaler
	budgets     map[string]*policy.PodDisruptionBudget
	policies    map[string]*networking.NetworkPolicy
	monitors    map[string]*monitoring.ServiceMonitor
}

func build(t *testing.T) *manifests {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), ".")
	if err != nil {
		t.Fatal(err)
	}
	m := &manifests{}
	for _, r := range built.Resources() {
		if r.GetKind() != "Namespace" && r.GetNamespace() != "tidegate" {
			t.Errorf("%s %s is in the namespace %q", r.GetKind(), r.GetName(), r.GetNamespace())
		}
		text, err := r.AsYAML()
		if err == nil {
			err = m.add(r.GetApiVersion()+" "+r.GetKind(), r.GetName(), text)
		}
		if err != nil {
			t.Fatalf("%s %s: %v", r.GetKind(), r.GetName(), err)
		}
	}
	return m
}

// add decodes a document. An unknown or misspelt field is an error.
func (m *manifests) add(kind, name string, text []byte) error {
	switch kind {
	case "v1 Namespace":
		return decode(&m.namespaces, name, text)
	case "v1 ConfigMap":
		return decode(&m.configs, name, text)
	case "v1 Secret":
		return decode(&m.secrets, name, text)
	case "v1 Service":
		return decode(&m.services, name, text)
	case "apps/v1 Deployment":
		return decode(&m.deployments, name, text)
	case "batch/v1 Job":
		return decode(&m.jobs, name, text)
	case "autoscaling/v2 HorizontalPodAutoscaler":
		return decode(&m.scalers, name, text)
	case "policy/v1 PodDisruptionBudget":
		return decode(&m.budgets, name, text)
	case "networking.k8s.io/v1 NetworkPolicy":
		return decode(&m.policies, name, text)
	case "monitoring.coreos.com/v1 ServiceMonitor":
		return decode(&m.monitors, name, text)
	}
	return fmt.Errorf("no type for %q", kind)
}

func decode[T any](into *map[string]*T, name string, text []byte) error {
	v := new(T)
	if err := yaml.UnmarshalStrict(text, v); err != nil {
		return err
	}
	if *into == nil {
		*into = map[string]*T{}
	}
	(*into)[name] = v
	return nil
}

func TestDecoding(t *testing.T) {
	m := build(t)
	for kind, n := range map[string]int{
		"namespaces": len(m.namespaces) - 1, "config maps": len(m.configs) - 2, "secrets": len(m.secrets) - 1, "services": len(m.services) - 3,
		"deployments": len(m.deployments) - 2, "jobs": len(m.jobs) - 1, "autoscalers": len(m.scalers) - 1, "budgets": len(m.budgets) - 2,
		"network policies": len(m.policies) - 3, "monitors": len(m.monitors) - 2,
	} {
		if n != 0 {
			t.Errorf("%s: %d too many", kind, n)
		}
	}
	const wrong = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replica: 2}\n"
	if err := m.add("apps/v1 Deployment", "a", []byte(wrong)); err == nil {
		t.Error("a misspelt field was accepted")
	}
}

// Installations start with the rules that the programs have built in.
func TestRulesFile(t *testing.T) {
	got, err := os.ReadFile("rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../../admission/rules/default.yaml")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("rules.yaml must be a copy of admission/rules/default.yaml (%v)", err)
	}
	if m := build(t); m.configs["tidegate-rules"].Data["rules.yaml"] != string(want) {
		t.Errorf("%q", m.configs["tidegate-rules"].Data)
	}
}
