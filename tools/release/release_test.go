package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// prepared returns a source and programs, which are this test's own program. No go command runs.
func prepared(t *testing.T) (*source, []*programs) {
	t.Helper()
	dockerfile, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	stage, err := parseDockerfile(string(dockerfile))
	if err != nil {
		t.Fatal(err)
	}
	src := &source{root: "../..", version: "v1.2.3", commit: "01349d6a", at: time.Date(2026, 11, 23, 0, 36, 12, 0, time.UTC), image: stage}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var built []*programs
	for _, arch := range []string{"amd64", "arm64"} {
		p := &programs{"linux", arch, t.TempDir()}
		for _, name := range programNames {
			if err := os.Symlink(self, p.path(name)); err != nil {
				t.Fatal(err)
			}
		}
		built = append(built, p)
	}
	return src, built
}

// The image runs as the Dockerfile's: the same user, folders, ports and command. A registry gives it the digest of the file.
func TestImage(t *testing.T) {
	src, built := prepared(t)
	base := filepath.Join(t.TempDir(), "image")
	if err := writeImage(src, built, base); err != nil {
		t.Fatal(err)
	}
	digest, err := os.ReadFile(base + ".digest")
	if err != nil {
		t.Fatal(err)
	}
	index := unpacked(t, base+".tar")
	server := httptest.NewServer(registry.New())
	defer server.Close()
	ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/tidegate:v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(ref, index); err != nil {
		t.Fatal(err)
	}
	pushed, err := remote.Head(ref)
	if err != nil || pushed.Digest.String()+"\n" != string(digest) {
		t.Errorf("the registry has %v, %v, want %s", pushed, err, digest)
	}

	for _, arch := range []string{"amd64", "arm64"} {
		tag, err := name.NewTag("tidegate:v1.2.3-" + arch)
		if err != nil {
			t.Fatal(err)
		}
		img, err := tarball.ImageFromPath(base+".tar", &tag) // as docker load reads it
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		config.Config.Labels = nil
		want := v1.Config{
			User: "65532:65532", Env: []string{"TIDEGATE_DATA=/data"}, Cmd: []string{"/api"},
			ExposedPorts: map[string]struct{}{"8080/tcp": {}, "8081/tcp": {}, "8082/tcp": {}},
		}
		if diff := cmp.Diff(want, config.Config); diff != "" || config.Architecture != arch || config.OS != "linux" {
			t.Errorf("%s/%s: %s", config.OS, config.Architecture, diff)
		}
		files(t, img)
	}
}

// unpacked reads the index in an OCI layout.
func unpacked(t *testing.T, file string) v1.ImageIndex {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "tar", "-xf", file, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%+v, %v, want one index", manifest, err)
	}
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func files(t *testing.T, img v1.Image) {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range layers {
		content, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		defer content.Close()
		for r := tar.NewReader(content); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, h.Name)
			if h.Name == "data/" && (h.Uid != user || h.Gid != user || h.Mode != 0o755) {
				t.Errorf("%+v", h)
			}
			if strings.HasSuffix(h.Name, ".crt") {
				text, err := io.ReadAll(r)
				if err != nil || !x509.NewCertPool().AppendCertsFromPEM(text) || bytes.Count(text, []byte("BEGIN CERTIFICATE")) < 100 {
					t.Errorf("certificates: %d bytes, %v", len(text), err)
				}
			}
		}
	}
	want := []string{"data/", "etc/", "etc/ssl/", "etc/ssl/certs/", "etc/ssl/certs/ca-certificates.crt", "api", "tidegate", "worker"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestEveryFileIsReproducible(t *testing.T) {
	src, built := prepared(t)
	write := func() (dir string) {
		dir = t.TempDir()
		for _, err := range []error{
			writeArchive(src, built[0], filepath.Join(dir, "linux.tar.gz")),
			writeSBOM(src, built, filepath.Join(dir, "sbom.json")),
			writeImage(src, built, filepath.Join(dir, "image")),
			writeChecksums(dir),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	one, two := write(), write()
	if out, err := exec.CommandContext(t.Context(), "diff", "-r", one, two).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "-c", "SHA256SUMS")
	check.Dir = one
	if out, err := check.CombinedOutput(); err != nil || strings.Count(string(out), ": OK\n") != 4 {
		t.Errorf("%v: %s", err, out)
	}
}

func TestSBOM(t *testing.T) {
	src, built := prepared(t)
	file := filepath.Join(t.TempDir(), "sbom.json")
	if err := writeSBOM(src, built, file); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(f, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if bom.SerialNumber != "" || bom.Metadata.Timestamp != "2026-11-23T00:36:12Z" || bom.Metadata.Component.Version != "v1.2.3" {
		t.Errorf("%q %+v", bom.SerialNumber, bom.Metadata)
	}
	i := slices.IndexFunc(*bom.Components, func(c cdx.Component) bool { return c.Name == "github.com/google/go-containerregistry" })
	if i < 0 {
		t.Fatal("a module of the program is missing")
	}
	if c := (*bom.Components)[i]; !strings.HasPrefix(c.PackageURL, "pkg:golang/github.com/google/go-containerregistry@v0.") || len((*c.Hashes)[0].Value) != 64 {
		t.Errorf("%+v", c)
	}
}

// A file that is not committed could be part of the programs.
func TestAChangedTreeIsRefused(t *testing.T) {
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		if _, err := git(t.Context(), dir, append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	run("init", "-q")
	dockerfile, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	toolchain := regexp.MustCompile(`golang:[0-9.]+`).ReplaceAll(dockerfile, []byte("golang:"+strings.TrimPrefix(runtime.Version(), "go")))
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), toolchain, 0o600); err != nil { // whichever runs this test
		t.Fatal(err)
	}
	run("add", ".")
	run("commit", "-q", "-m", "one")
	describe := func() string {
		src, err := checkout(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		return src.version
	}
	if got := describe(); len(got) != 12 {
		t.Errorf("without tags: %q, want 12 digits of the commit", got)
	}
	run("tag", "v0.1.0")
	if got := describe(); got != "v0.1.0" {
		t.Errorf("at a tag: %q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "new.go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := checkout(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "must be clean") || !strings.Contains(err.Error(), "?? new.go") {
		t.Errorf("%v", err)
	}
}

// The variables are those of internal/serve/version.go.
func TestLinkerFlags(t *testing.T) {
	src := &source{version: "v1.2.3", commit: "01349d6a", at: time.Date(2026, 11, 23, 0, 36, 12, 0, time.UTC)}
	const serve = "github.com/tidegate/tidegate/internal/serve"
	want := "-s -w -X " + serve + ".released=v1.2.3 -X " + serve + ".commit=01349d6a -X " + serve + ".date=2026-11-23T00:36:12Z"
	if got := src.linkerFlags(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	file, err := os.ReadFile("../../internal/serve/version.go")
	if err != nil || !strings.Contains(string(file), "var released, commit, date string") {
		t.Errorf("the linker ignores names that do not exist (%v)", err)
	}
}

func TestUnknownInstructionsAreRefused(t *testing.T) {
	const start = "FROM golang:1.26.8-bookworm AS build\n\nFROM scratch\n"
	copies := strings.Join(copied, "\n") + "\n"
	if s, err := parseDockerfile(start + copies + "USER 1:1\n"); err != nil || s.toolchain != "go1.26.8" || s.config.User != "1:1" {
		t.Errorf("%+v, %v", s, err)
	}
	for _, text := range []string{start + copies + "HEALTHCHECK NONE\n", start + copies + "COPY a b\n", start, "FROM golang:1.26.8-bookworm\n" + copies} {
		if _, err := parseDockerfile(text); err == nil {
			t.Errorf("accepted:\n%s", text)
		}
	}
}
