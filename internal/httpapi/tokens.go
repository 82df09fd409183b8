package httpapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/goccy/go-yaml"
)

// Role is what a token of the internal listener allows.
type Role string

// The roles.
const (
	RoleAdmit    Role = "admit"    // decisions, and reading and paying orders
	RoleMetrics  Role = "metrics"  // metrics
	RoleOperator Role = "operator" // everything
)

// may tells whether a caller of this role may do what needs the other.
func (r Role) may(needed Role) bool { return r == RoleOperator || r != "" && r == needed }

// Tokens are the tokens of the internal listener. Made by NewTokens or
// LoadTokens; safe for concurrent use.
type Tokens struct {
	known atomic.Pointer[[]token]
	file  string
	log   *slog.Logger
}

type token struct {
	name string
	role Role
	hash [sha256.Size]byte
}

// NewTokens makes an operator's token, and one that may read the metrics, unless that is "".
func NewTokens(operator, metrics string) (*Tokens, error) {
	known := []token{{name: "operator", role: RoleOperator, hash: sha256.Sum256([]byte(operator))}}
	if metrics != "" {
		known = append(known, token{name: "metrics", role: RoleMetrics, hash: sha256.Sum256([]byte(metrics))})
	}
	if !visible(operator, maxToken) || metrics != "" && !visible(metrics, maxToken) || metrics == operator {
		return nil, errors.New("httpapi: a token must be visible ASCII characters, without spaces, and no other's")
	}
	t := &Tokens{}
	t.known.Store(&known)
	return t, nil
}

// LoadTokens reads a YAML file: a list of name, role and token.
func LoadTokens(path string, log *slog.Logger) (*Tokens, error) {
	t := &Tokens{file: path, log: log}
	return t, readFile(path, t.load)
}

// Run reloads the file whenever it changes, and keeps the last good tokens. It returns when ctx ends.
func (t *Tokens) Run(ctx context.Context) error { return watchFile(ctx, t.file, t.log, t.load) }

// load never quotes the file in an error: it is full of secrets.
func (t *Tokens) load(content []byte) error {
	var listed []struct {
		Name  string `yaml:"name"`
		Role  Role   `yaml:"role"`
		Token string `yaml:"token"`
	}
	if err := yaml.UnmarshalWithOptions(content, &listed, yaml.Strict()); err != nil {
		var located yaml.Error
		if errors.As(err, &located) && located.GetToken() != nil {
			return fmt.Errorf("httpapi: line %d: not a list of lines like - {name: ann, role: operator, token: secret}; roles are admit, metrics and operator", located.GetToken().Position.Line)
		}
		return errors.New("httpapi: not a list of lines like - {name: ann, role: operator, token: secret}; roles are admit, metrics and operator")
	}
	if len(listed) == 0 {
		return errors.New("httpapi: lists no token")
	}
	names := make(map[string]bool, len(listed))
	hashes := make(map[[sha256.Size]byte]bool, len(listed))
	known := make([]token, 0, len(listed))
	for i, l := range listed {
		hash := sha256.Sum256([]byte(l.Token))
		switch {
		case l.Name == "" || names[l.Name]:
			return fmt.Errorf("httpapi: token %d needs a name of its own", i+1)
		case l.Role != RoleAdmit && l.Role != RoleMetrics && l.Role != RoleOperator:
			return fmt.Errorf("httpapi: token %d: the role must be admit, metrics or operator", i+1)
		case !visible(l.Token, maxToken) || hashes[hash]:
			return fmt.Errorf("httpapi: token %d must be visible ASCII characters, without spaces, and no other's", i+1)
		}
		names[l.Name], hashes[hash] = true, true
		known = append(known, token{name: l.Name, role: l.Role, hash: hash})
	}
	t.known.Store(&known)
	return nil
}

// holds tells whether a token that was found is still as it was.
func (t *Tokens) holds(found token) bool { return slices.Contains(*t.known.Load(), found) }

// find returns the token that was presented. It compares all of them, whole, so that its
// time tells nothing.
func (t *Tokens) find(presented string) (found token, ok bool) {
	hash := sha256.Sum256([]byte(presented))
	for _, k := range *t.known.Load() {
		if subtle.ConstantTimeCompare(hash[:], k.hash[:]) == 1 {
			found, ok = k, true
		}
	}
	return found, ok
}
