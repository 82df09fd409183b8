package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// A defect is a deliberate mistake in the product: a patch of this source tree, below a sentence that describes it. Worlds have to find it.
type defect struct{ name, about, file string }

var errNotFound = errors.New("simulate: no world finds some defects")

// findDefects runs worlds with each defect of a folder until one is broken, and prints what that took.
func findDefects(ctx context.Context, folder, only string, first, last uint64, out io.Writer) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.patch"))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%-34s %6s %8s %7s  %s\n", "defect", "worlds", "broken", "seconds", "what it is")
	ran := 0
	var missed error
	plain := sync.OnceValues(func() (*host, error) { return newHost(ctx) }) // without a defect
	for _, file := range files {
		d := defect{name: strings.TrimSuffix(filepath.Base(file), ".patch"), file: file}
		if only != "" && d.name != only {
			continue
		}
		ran++
		began := time.Now()
		worlds, broken, err := d.find(ctx, plain, first, last)
		if err != nil {
			return fmt.Errorf("simulate: defect %s: %w", d.name, err)
		}
		if broken == "" {
			broken, missed = "nothing", errNotFound
		}
		fmt.Fprintf(out, "%-34s %6d %8s %7.0f  %s\n", d.name, worlds, broken, time.Since(began).Seconds(), d.about)
	}
	if ran == 0 {
		return fmt.Errorf("simulate: there is no defect %s in %s", only, folder)
	}
	return missed
}

// find returns how many worlds it takes to find the defect, and what it breaks. A world that is broken without it as well does not count.
func (d *defect) find(ctx context.Context, plain func() (*host, error), first, last uint64) (worlds uint64, broken string, err error) {
	folder, err := os.MkdirTemp("", "defect")
	if err != nil {
		return 0, "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	overlay, err := d.apply(ctx, folder)
	if err != nil {
		return 0, "", err
	}
	h, err := newHost(ctx, "-overlay="+overlay)
	if err != nil {
		return 0, "", err
	}
	defer h.runtime.Close(context.WithoutCancel(ctx))
	var (
		mu      sync.Mutex
		next    = first
		running sync.WaitGroup
	)
	take := func() (number uint64, more bool) {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1, next-1 <= last && worlds == 0 && err == nil && ctx.Err() == nil
	}
	for range atOnce() {
		running.Go(func() {
			for number, more := take(); more; number, more = take() {
				what, failed := breaks(ctx, h, plain, number)
				mu.Lock()
				err = errors.Join(err, failed)
				// Those that began earlier end as well, so the lowest number counts.
				if n := number - first + 1; what != "" && (worlds == 0 || n < worlds) {
					worlds, broken = n, what
				}
				mu.Unlock()
			}
		})
	}
	running.Wait()
	if broken == "" {
		worlds = last - first + 1
	}
	return worlds, broken, errors.Join(err, ctx.Err())
}

// breaks returns what a world breaks on h, and not on the plain host.
func breaks(ctx context.Context, h *host, plain func() (*host, error), number uint64) (what string, err error) {
	o, failed := h.run(ctx, number, nil, io.Discard)
	switch {
	case errors.Is(failed, errEndless):
		what = "endless"
	case failed != nil:
		return "", fmt.Errorf("world %d: %w", number, failed)
	case len(o.Breaches) > 0:
		what, _, _ = strings.Cut(o.Breaches[0], " ")
	default:
		return "", nil
	}
	without, err := plain()
	if err != nil {
		return "", err
	}
	if o, err = without.run(ctx, number, nil, io.Discard); err != nil || len(o.Breaches) > 0 {
		return "", err
	}
	return what, nil
}

// touched are the files of a patch.
var touched = regexp.MustCompile(`(?m)^--- a/(.+)$`)

// apply applies the patch to copies of the files that it changes, and returns a file for go build -overlay that replaces them.
func (d *defect) apply(ctx context.Context, folder string) (overlay string, err error) {
	patch, err := os.ReadFile(d.file)
	if err != nil {
		return "", err
	}
	about, _, _ := bytes.Cut(patch, []byte("diff --git"))
	d.about = strings.Join(strings.Fields(string(about)), " ")
	module, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	root := filepath.Dir(strings.TrimSpace(string(module)))
	replace := make(map[string]string)
	for _, found := range touched.FindAllSubmatch(patch, -1) {
		name := filepath.FromSlash(string(found[1]))
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return "", err
		}
		at := filepath.Join(folder, name)
		replace[filepath.Join(root, name)] = at
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(at, text, 0o644); err != nil {
			return "", err
		}
	}
	apply := exec.CommandContext(ctx, "git", "apply", "-p1")
	apply.Dir, apply.Stdin = folder, bytes.NewReader(patch)
	apply.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(folder)) // it is in no repository
	if text, err := apply.CombinedOutput(); err != nil {
		return "", fmt.Errorf("it does not apply: %w: %s", err, bytes.TrimSpace(text))
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(folder, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o644)
}
