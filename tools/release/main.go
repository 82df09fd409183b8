// Command release builds a release into a folder: an archive of the programs for each platform, the container image for each Linux
// platform, a list of dependencies and checksums of all of them. The same commit gives the same bytes on every machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	out := flag.String("out", "../dist", "folder to write, replaced if it exists")
	platforms := flag.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "GOOS/GOARCH, comma-separated")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := release(ctx, "..", *out, strings.Split(*platforms, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release builds the commit that is checked out at root.
func release(ctx context.Context, root, out string, platforms []string) error {
	src, err := checkout(ctx, root)
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(out), os.MkdirAll(out, 0o755)); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "tidegate-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	built := make([]*programs, 0, len(platforms))
	for _, platform := range platforms {
		p, err := build(ctx, src, platform, filepath.Join(work, strings.ReplaceAll(platform, "/", "_")))
		if err != nil {
			return err
		}
		if err := writeArchive(src, p, filepath.Join(out, src.name(p.os+"_"+p.arch+".tar.gz"))); err != nil {
			return err
		}
		built = append(built, p)
	}
	if err := writeSBOM(src, built, filepath.Join(out, src.name("sbom.cdx.json"))); err != nil {
		return err
	}
	if err := writeImage(src, built, filepath.Join(out, src.name("image"))); err != nil {
		return err
	}
	return writeChecksums(out)
}
