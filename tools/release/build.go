package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

var programNames = []string{"api", "tidegate", "worker"}

// programs are the programs for one platform, in a folder.
type programs struct {
	os, arch string
	dir      string
}

func (p *programs) path(name string) string { return filepath.Join(p.dir, name) }

// linkerFlags strip symbols and set what --version prints.
func (s *source) linkerFlags() string {
	flags := "-s -w"
	for _, v := range [][2]string{{"released", s.version}, {"commit", s.commit}, {"date", s.at.Format(time.RFC3339)}} {
		flags += " -X github.com/tidegate/tidegate/internal/serve." + v[0] + "=" + v[1]
	}
	return flags
}

// build compiles without C, paths of this machine, or settings of its user that would change the bytes.
func build(ctx context.Context, src *source, platform, dir string) (*programs, error) {
	goos, goarch, ok := strings.Cut(platform, "/")
	if !ok {
		return nil, fmt.Errorf("a platform must be GOOS/GOARCH, got %q", platform)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	args := []string{
		"build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", src.linkerFlags(), "-o",
		dir + string(filepath.Separator),
	}
	for _, name := range programNames {
		args = append(args, "./cmd/"+name)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = src.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off", "GOTOOLCHAIN="+src.image.toolchain)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	fmt.Fprintln(os.Stderr, "release: building", platform)
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("build for %s: %w", platform, err)
	}
	return &programs{goos, goarch, dir}, nil
}
