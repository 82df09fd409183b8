package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM writes the modules that are linked into the programs of any platform, as the programs themselves list them. It has no serial
// number, which would be random, and its time is the commit's.
func writeSBOM(src *source, built []*programs, file string) error {
	root := cdx.Component{
		BOMRef: "tidegate", Type: cdx.ComponentTypeApplication, Name: "github.com/tidegate/tidegate", Version: src.version,
		PackageURL: packageURL("github.com/tidegate/tidegate", src.version),
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}
	linked := map[string]cdx.Component{}
	for _, p := range built {
		for _, name := range programNames {
			info, err := buildinfo.ReadFile(p.path(name))
			if err != nil {
				return err
			}
			std := strings.TrimPrefix(info.GoVersion, "go")
			for _, m := range append(info.Deps, &debug.Module{Path: "std", Version: std}) {
				c, err := component(m)
				if err != nil {
					return err
				}
				linked[c.BOMRef] = c
			}
		}
	}
	components, refs := []cdx.Component{}, []string{}
	for _, c := range linked {
		components, refs = append(components, c), append(refs, c.BOMRef)
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	slices.Sort(refs)

	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: src.at.Format(time.RFC3339), Component: &root}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: root.BOMRef, Dependencies: &refs}}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

func component(m *debug.Module) (cdx.Component, error) {
	if m.Replace != nil {
		m = m.Replace
	}
	c := cdx.Component{
		Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, Scope: cdx.ScopeRequired,
		PackageURL: packageURL(m.Path, m.Version),
	}
	c.BOMRef = c.PackageURL
	if m.Sum == "" { // the standard library
		return c, nil
	}
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")) //nolint:forbidigo // a checksum of the Go command, and no signed text
	if err != nil {
		return c, fmt.Errorf("checksum of %s: %w", m.Path, err)
	}
	c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}} // as in go.sum
	return c, nil
}

func packageURL(path, version string) string {
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}
