package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// An entry is a file of an archive, or a folder, whose name ends with a slash. All belong to root if uid is 0.
type entry struct {
	name    string
	mode    int64
	uid     int
	content []byte
}

// tarOf returns a tar file that depends on nothing but its arguments.
func tarOf(at time.Time, entries []entry) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{
			Name: e.name, Mode: e.mode, Uid: e.uid, Gid: e.uid, Size: int64(len(e.content)), ModTime: at, Format: tar.FormatUSTAR,
			Typeflag: tar.TypeReg,
		}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// writeArchive writes the programs of a platform with the texts that belong to them.
func writeArchive(src *source, p *programs, file string) error {
	folder := strings.TrimSuffix(filepath.Base(file), ".tar.gz")
	entries := []entry{{name: folder + "/", mode: 0o755}}
	add := func(from, name string, mode int64) error {
		content, err := os.ReadFile(from)
		entries = append(entries, entry{name: path.Join(folder, name), mode: mode, content: content})
		return err
	}
	for _, name := range programNames {
		if err := add(p.path(name), name, 0o755); err != nil {
			return err
		}
	}
	for _, name := range []string{"CHANGELOG.md", "LICENSE", "README.md"} {
		if err := add(filepath.Join(src.root, name), name, 0o644); err != nil {
			return err
		}
	}
	content, err := tarOf(src.at, entries)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out) // without a name and a time in its header
	if _, err := w.Write(content); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// writeChecksums writes SHA256SUMS, for sha256sum -c.
func writeChecksums(dir string) error {
	files, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), f.Name())
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), sums.Bytes(), 0o644)
}
