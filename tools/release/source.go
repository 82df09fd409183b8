package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// source is the commit that is released.
type source struct {
	root    string
	version string // git describe: a tag, a tag with the distance to it, or a short commit
	commit  string
	at      time.Time // of the commit; the only time in a release
	image   runtimeStage
}

// checkout describes the commit at root. It refuses a tree with other bytes than the commit's.
func checkout(ctx context.Context, root string) (*source, error) {
	changed, err := git(ctx, root, "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if changed != "" {
		return nil, fmt.Errorf("the working tree must be clean, because a release is named after its commit; commit, stash or remove:\n%s",
			changed)
	}
	s := &source{root: root}
	if s.version, err = git(ctx, root, "describe", "--tags", "--always", "--abbrev=12"); err != nil {
		return nil, err
	}
	if s.commit, err = git(ctx, root, "rev-parse", "HEAD"); err != nil {
		return nil, err
	}
	at, err := git(ctx, root, "show", "--no-patch", "--format=%cI", "HEAD")
	if err != nil {
		return nil, err
	}
	if s.at, err = time.Parse(time.RFC3339, at); err != nil {
		return nil, err
	}
	s.at = s.at.UTC()
	dockerfile, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		return nil, err
	}
	if s.image, err = parseDockerfile(string(dockerfile)); err != nil {
		return nil, fmt.Errorf("parse Dockerfile: %w", err)
	}
	if runtime.Version() != s.image.toolchain {
		return nil, fmt.Errorf("the toolchain must be %s, as in the Dockerfile, because another one gives other bytes, got %s; set "+
			"GOTOOLCHAIN=%[1]s",
			s.image.toolchain, runtime.Version())
	}
	return s, nil
}

// name returns the name of a file of the release.
func (s *source) name(what string) string { return "tidegate_" + s.version + "_" + what }

func git(ctx context.Context, root string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimRight(string(out), "\n"), nil
}
