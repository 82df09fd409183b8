package admission

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"slices"
	"sync"
)

// Rules are the rules of one file, in its order. Make them with ParseRules or DefaultRules; the zero value limits nothing. Rules
// never change, so they are safe for concurrent use.
type Rules struct {
	rules   []rule
	first   bool // the first rule that refuses answers, not the strongest
	source  []byte
	version string
	load    func() (*Rules, error) // for Reload; nil: there is nothing to read again
	files   []string               // that they were read from
	never   []*valueList           // of those who are never banned
	idle    []Warning              // of what does nothing
	script  BanScript

	semaphores []SemaphoreRule
	login      []LoginRule
}

//go:embed default.yaml
var defaultSource []byte

// DefaultRules returns the rules that apply where there is no file of one's own.
func DefaultRules() *Rules { return defaultRules() }

var defaultRules = sync.OnceValue(func() *Rules {
	rules, err := ParseRules("default.yaml", defaultSource)
	if err != nil {
		panic(err) // the file is part of the program
	}
	return rules
})

// Version names the content of the rules: equal files have equal versions.
func (r *Rules) Version() string { return r.version }

// has reports whether there is a rule of this name.
func (r *Rules) has(name string) bool {
	return slices.ContainsFunc(r.rules, func(r rule) bool { return r.name == name })
}

// Source returns the file as it was parsed.
func (r *Rules) Source() []byte { return bytes.Clone(r.source) }

// Semaphores returns the semaphores of the file, in its order. Rules do not act on them.
func (r *Rules) Semaphores() []SemaphoreRule { return slices.Clone(r.semaphores) }

// Login returns the login rules of the file, in its order, or those of DefaultRules if it has none. Rules do not act on them.
func (r *Rules) Login() []LoginRule {
	if len(r.login) == 0 {
		r = defaultRules()
	}
	return slices.Clone(r.login)
}

// Files returns the files that the rules were read from: their own, if they were read from one, and those of lists.
func (r *Rules) Files() []string { return slices.Clone(r.files) }

// Reloadable returns rules as r that a Gate can read again: Gate.Reload calls load, and so does Gate.Run whenever one of files has
// changed or one that a list of r is in. So rules that are written in another language, and translated, follow their files as those of
// LoadRules do. What load returns should be Reloadable too, or it is the last that is read. It is called by one goroutine at a time;
// rules with the Version of those in force change nothing, so whatever load translates has to show in the text that it gives ParseRules.
func (r *Rules) Reloadable(load func() (*Rules, error), files ...string) *Rules {
	again := *r
	again.load, again.files = load, slices.Concat(files, r.files)
	return &again
}

// seal names the rules by all that they were read from.
func (r *Rules) seal(lists [][]byte) {
	h := sha256.New()
	h.Write(r.source)
	for _, content := range lists {
		sum := sha256.Sum256(content)
		h.Write(sum[:])
	}
	r.source = bytes.Clone(r.source)
	r.version = hex.EncodeToString(h.Sum(nil)[:6])
}
