package admission

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"slices"
)

// Rules are the rules of one file, in its order. Make them with ParseRules or DefaultRules; the zero value limits nothing. Rules
// never change, so they are safe for concurrent use.
type Rules struct {
	rules   []rule
	source  []byte
	version string
}

//go:embed default.yaml
var defaultSource []byte

// DefaultRules returns the rules that apply where there is no file of one's own.
func DefaultRules() *Rules {
	rules, err := ParseRules("default.yaml", defaultSource)
	if err != nil {
		panic(err) // the file is part of the program
	}
	return rules
}

// Version names the content of the rules: equal sources have equal versions.
func (r *Rules) Version() string { return r.version }

// has reports whether there is a rule of this name.
func (r *Rules) has(name string) bool {
	return slices.ContainsFunc(r.rules, func(r rule) bool { return r.name == name })
}

// Source returns the file as it was parsed.
func (r *Rules) Source() []byte { return bytes.Clone(r.source) }

func newRules(rules []rule, source []byte) *Rules {
	sum := sha256.Sum256(source)
	return &Rules{rules: rules, source: bytes.Clone(source), version: hex.EncodeToString(sum[:6])}
}
