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

	"github.com/tidegate/tidegate/internal/published"
)

// Role is what a token of the internal listener allows.
type Role string

// The roles.
const (
	RoleAdmit    Role = "admit"    // decisions, semaphores, logins, and reading and paying orders
	RoleMetrics  Role = "metrics"  // /metrics and nothing else
	RoleViewer   Role = "viewer"   // the page, lists, verify and explain; changes nothing
	RoleOperator Role = "operator" // everything
)

var roles = []Role{RoleAdmit, RoleMetrics, RoleViewer, RoleOperator}

// Roles that may use a route, in addition to operators.
var (
	forOperators = []Role{}
	forServices  = []Role{RoleAdmit}
	forViewers   = []Role{RoleViewer}
	forReaders   = []Role{RoleAdmit, RoleViewer}
	forScrapers  = []Role{RoleMetrics}
)

// may reports whether a caller of this role may use a route for the given roles.
func (r Role) may(roles []Role) bool { return r == RoleOperator || slices.Contains(roles, r) }

// wrongRole returns the problem that names the roles that may use a route.
func wrongRole(has Role, roles []Role) error {
	p, right := problem(reasonForbidden), string(RoleOperator)
	for _, r := range roles {
		right = string(r) + " or " + right
	}
	p.Detail = fmt.Sprintf("The token has the role %s, and this call needs %s.", has, right)
	return p
}

// minToken is the minimum length of a token, to prevent guessing.
const minToken = 16

// Tokens are the tokens of the internal listener. Made by NewTokens or
// LoadTokens; safe for concurrent use.
type Tokens struct {
	known     atomic.Pointer[[]token]
	published atomic.Bool // one of them is published in this repository
	allowed   bool        // published tokens are allowed
	file      string
	log       *slog.Logger
}

type token struct {
	name string
	role Role
	hash [sha256.Size]byte
}

// NewTokens makes an operator's token, and one for reading the metrics, unless metrics is "".
func NewTokens(operator, metrics string) (*Tokens, error) {
	known := []token{{name: "operator", role: RoleOperator, hash: sha256.Sum256([]byte(operator))}}
	if metrics != "" {
		known = append(known, token{name: "metrics", role: RoleMetrics, hash: sha256.Sum256([]byte(metrics))})
	}
	if !usableToken(operator) || metrics != "" && !usableToken(metrics) || metrics == operator {
		return nil, fmt.Errorf("httpapi: a token must have %d to %d visible ASCII characters, without spaces, and differ from every other token", minToken, maxToken)
	}
	t := &Tokens{}
	t.known.Store(&known)
	return t, nil
}

// LoadTokens reads a YAML file: a list of name, role and token. allowDemo also accepts tokens that this repository publishes.
func LoadTokens(path string, allowDemo bool, log *slog.Logger) (*Tokens, error) {
	t := &Tokens{file: path, allowed: allowDemo, log: log}
	return t, readFile(path, t.load)
}

// Run reloads the file whenever it changes, and keeps the last good tokens. It returns when ctx ends.
func (t *Tokens) Run(ctx context.Context) error { return watchFile(ctx, t.file, t.log, t.load) }

const wrongTokens = "must be a list of lines like - {name: ann, role: operator, token: secret}; roles are admit, metrics, viewer and operator"

func usableToken(text string) bool { return len(text) >= minToken && visible(text, maxToken) }

// load never quotes the file in an error, because it is full of secrets.
func (t *Tokens) load(content []byte) error {
	var listed []struct {
		Name  string `yaml:"name"`
		Role  Role   `yaml:"role"`
		Token string `yaml:"token"`
	}
	if err := yaml.UnmarshalWithOptions(content, &listed, yaml.Strict()); err != nil {
		var located yaml.Error
		if errors.As(err, &located) && located.GetToken() != nil {
			return fmt.Errorf("httpapi: line %d: %s", located.GetToken().Position.Line, wrongTokens)
		}
		return errors.New("httpapi: " + wrongTokens)
	}
	if len(listed) == 0 {
		return errors.New("httpapi: lists no token")
	}
	names := make(map[string]bool, len(listed))
	hashes := make(map[[sha256.Size]byte]bool, len(listed))
	known, demo := make([]token, 0, len(listed)), false
	for i, l := range listed {
		hash := sha256.Sum256([]byte(l.Token))
		switch {
		case l.Name == "" || names[l.Name]:
			return fmt.Errorf("httpapi: token %d needs a name of its own", i+1)
		case !slices.Contains(roles, l.Role):
			return fmt.Errorf("httpapi: token %d: the role must be admit, metrics, viewer or operator", i+1)
		case !usableToken(l.Token):
			return fmt.Errorf("httpapi: token %d must have %d to %d visible ASCII characters, without spaces: openssl rand -hex 32 makes one", i+1, minToken, maxToken)
		case published.Is(l.Token) && !t.allowed:
			return fmt.Errorf("httpapi: token %d is one that Tidegate's repository publishes; make one of your own (openssl rand -hex 32), or set ALLOW_DEMO_SECRETS=true", i+1)
		case hashes[hash]:
			return fmt.Errorf("httpapi: token %d is the same as another one; each needs its own", i+1)
		}
		names[l.Name], hashes[hash] = true, true
		demo = demo || published.Is(l.Token)
		known = append(known, token{name: l.Name, role: l.Role, hash: hash})
	}
	t.known.Store(&known)
	if t.published.Store(demo); demo {
		t.log.Warn("everybody knows some of these tokens, for Tidegate's repository publishes them", "file", t.file)
	}
	return nil
}

// holds reports whether a token that was found is still valid and unchanged.
func (t *Tokens) holds(found token) bool { return slices.Contains(*t.known.Load(), found) }

// find returns the token that was presented. It compares all of them in full, so that its duration reveals nothing.
func (t *Tokens) find(presented string) (found token, ok bool) {
	hash := sha256.Sum256([]byte(presented))
	for _, k := range *t.known.Load() {
		if subtle.ConstantTimeCompare(hash[:], k.hash[:]) == 1 {
			found, ok = k, true
		}
	}
	return found, ok
}
