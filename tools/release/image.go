package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user owns /data, as in the Dockerfile.
const user = 65532

// writeImage writes one image for all Linux platforms: base.tar, an OCI layout that docker load reads too, and base.digest, the digest
// that a registry gives it.
func writeImage(src *source, built []*programs, base string) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var forDocker []dockerImage
	for _, p := range built {
		if p.os != "linux" {
			continue
		}
		img, err := imageOf(src, p)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}},
		})
		named, err := dockerImageOf(img, "tidegate:"+src.version+"-"+p.arch)
		if err != nil {
			return err
		}
		forDocker = append(forDocker, named)
	}
	if forDocker == nil {
		return nil
	}
	dir, err := os.MkdirTemp("", "tidegate-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": src.version})); err != nil {
		return err
	}
	list, err := json.Marshal(forDocker)
	if err != nil {
		return err
	}
	if err := path.WriteFile("manifest.json", list, 0o644); err != nil {
		return err
	}
	var entries []entry
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error { // in the order of names
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		entries = append(entries, entry{name: name, mode: 0o644, content: content})
		return err
	})
	if err != nil {
		return err
	}
	content, err := tarOf(src.at, entries)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	if err := os.WriteFile(base+".tar", content, 0o644); err != nil {
		return err
	}
	return os.WriteFile(base+".digest", []byte(digest.String()+"\n"), 0o644)
}

// imageOf returns the image for one platform.
func imageOf(src *source, p *programs) (v1.Image, error) {
	files, err := layers(p)
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, entries := range files {
		content, err := tarOf(src.at, entries)
		if err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(content)), nil
		}, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		if img, err = mutate.Append(img, mutate.Addendum{
			Layer:   layer,
			History: v1.History{Created: v1.Time{Time: src.at}, CreatedBy: "tools/release"},
		}); err != nil {
			return nil, err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created, config.Config = p.os, p.arch, v1.Time{Time: src.at}, src.image.config
	config.Config.Labels = map[string]string{
		"org.opencontainers.image.title":    "Tidegate",
		"org.opencontainers.image.version":  src.version,
		"org.opencontainers.image.revision": src.commit,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	return mutate.ConfigFile(img, config)
}

// layers returns the files of the image: first those that rarely change.
func layers(p *programs) ([][]entry, error) {
	base := []entry{
		{name: "data/", mode: 0o755, uid: user},
		{name: "etc/", mode: 0o755},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: authorities()},
	}
	var own []entry
	for _, name := range programNames {
		content, err := os.ReadFile(p.path(name))
		if err != nil {
			return nil, err
		}
		own = append(own, entry{name: name, mode: 0o755, content: content})
	}
	return [][]entry{base, own}, nil
}

// authorities returns Mozilla's certificates in the version of go.mod, without those that it trusts only for certificates issued before a
// date, since the file cannot express that.
func authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a Buffer never fails
		}
	}
	return out.Bytes()
}

// dockerImage is an entry of manifest.json, which docker load reads.
type dockerImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func dockerImageOf(img v1.Image, tag string) (dockerImage, error) {
	manifest, err := img.Manifest()
	if err != nil {
		return dockerImage{}, err
	}
	blob := func(h v1.Hash) string { return fmt.Sprintf("blobs/%s/%s", h.Algorithm, h.Hex) }
	out := dockerImage{Config: blob(manifest.Config.Digest), RepoTags: []string{tag}}
	for _, l := range manifest.Layers {
		out.Layers = append(out.Layers, blob(l.Digest))
	}
	return out, nil
}
