package auth

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

	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/internal/reload"
)

// minToken is the minimum length of a token, to prevent guessing.
const minToken = 16

// Tokens are the tokens of the internal listener. Made by NewTokens or
// LoadTokens; safe for concurrent use.
type Tokens struct {
	known     atomic.Pointer[[]Token]
	published atomic.Bool    // one of them is published in this repository
	allowed   bool           // published tokens are allowed
	secrets   []string       // that no token may be
	source    *reload.Source // nil: they are not from a file
	file      string
	log       *slog.Logger
}

// A Token is one of the tokens, without its text. The zero value is none.
type Token struct {
	Name string
	Role Role
	hash [sha256.Size]byte
}

// NewTokens makes an operator's token, and one for reading the metrics, unless metrics is "".
func NewTokens(operator, metrics string) (*Tokens, error) {
	known := []Token{{Name: "operator", Role: RoleOperator, hash: sha256.Sum256([]byte(operator))}}
	if metrics != "" {
		known = append(known, Token{Name: "metrics", Role: RoleMetrics, hash: sha256.Sum256([]byte(metrics))})
	}
	if !usableToken(operator) || metrics != "" && !usableToken(metrics) || metrics == operator {
		return nil, fmt.Errorf("auth: a token must have %d to %d visible ASCII characters, without spaces, and differ from every other token",
			minToken, maxToken)
	}
	t := &Tokens{}
	t.known.Store(&known)
	return t, nil
}

// LoadTokens reads a YAML file: a list of name, role and token. allowDemo also accepts tokens that this repository publishes. No
// token may be one of the secrets: whoever has the token could sign what the secret signs.
func LoadTokens(path string, allowDemo bool, log *slog.Logger, secrets ...string) (*Tokens, error) {
	t := &Tokens{file: path, allowed: allowDemo, log: log, secrets: secrets}
	t.source = reload.File("TOKENS_FILE", path, log, t.load)
	return t, t.Reload()
}

// Reload reads the file now. A file that does not load changes nothing.
func (t *Tokens) Reload() error { return t.source.Load(context.Background()) }

// Source is the file of the tokens; nil: there is none.
func (t *Tokens) Source() *reload.Source { return t.source }

// Run reloads the file whenever it changes, and keeps the last good tokens. It returns when ctx ends.
func (t *Tokens) Run(ctx context.Context) error {
	if t.source == nil {
		<-ctx.Done()
		return nil
	}
	return t.source.Watch(ctx, t.file)
}

const wrongTokens = "must be a list of lines like - {name: ann, role: operator, token: secret}; roles are admit, metrics, viewer and " +
	"operator"

func usableToken(text string) bool {
	return len(text) >= minToken && input.Visible(text, maxToken) && !input.Guessable(text)
}

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
			return fmt.Errorf("auth: line %d: %s", located.GetToken().Position.Line, wrongTokens)
		}
		return errors.New("auth: " + wrongTokens)
	}
	if len(listed) == 0 {
		return errors.New("auth: the file must list at least one token")
	}
	names := make(map[string]bool, len(listed))
	hashes := make(map[[sha256.Size]byte]bool, len(listed))
	known, demo := make([]Token, 0, len(listed)), false
	for i, l := range listed {
		hash := sha256.Sum256([]byte(l.Token))
		switch {
		case l.Name == "" || names[l.Name]:
			return fmt.Errorf("auth: token %d needs a name of its own", i+1)
		case !slices.Contains(roles, l.Role):
			return fmt.Errorf("auth: token %d: the role must be admit, metrics, viewer or operator", i+1)
		case !usableToken(l.Token):
			return fmt.Errorf("auth: token %d must have %d to %d visible ASCII characters, without spaces, and not repeat a few: openssl rand "+
				"-hex 32 makes one", i+1, minToken, maxToken)
		case IsPublished(l.Token) && !t.allowed:
			return fmt.Errorf("auth: token %d is one that Tidegate's repository publishes; make one of your own (openssl rand -hex 32), or set "+
				"ALLOW_DEMO_SECRETS=true", i+1)
		case slices.Contains(t.secrets, l.Token):
			return fmt.Errorf("auth: token %d is one of the secrets that the process signs with; make one of its own", i+1)
		case hashes[hash]:
			return fmt.Errorf("auth: token %d is the same as another one; each needs its own", i+1)
		}
		names[l.Name], hashes[hash] = true, true
		demo = demo || IsPublished(l.Token)
		known = append(known, Token{Name: l.Name, Role: l.Role, hash: hash})
	}
	t.known.Store(&known)
	if t.published.Store(demo); demo {
		t.log.Warn("some of these tokens are public: Tidegate's repository publishes them", "file", t.file)
	}
	return nil
}

// FromFile reports whether a file defines the tokens, so that each has a name of its own.
func (t *Tokens) FromFile() bool { return t.file != "" }

// Published reports whether this repository publishes one of the tokens.
func (t *Tokens) Published() bool { return t.published.Load() }

// holds reports whether a token that was found is still valid and unchanged.
func (t *Tokens) holds(found Token) bool { return slices.Contains(*t.known.Load(), found) }

// find returns the token that was presented. It compares all of them in full, so that its duration reveals nothing.
// Contain reports whether a text is one of the tokens.
func (t *Tokens) Contain(text string) bool {
	_, ok := t.find(text)
	return ok
}

func (t *Tokens) find(presented string) (found Token, ok bool) {
	hash := sha256.Sum256([]byte(presented))
	for _, k := range *t.known.Load() {
		if subtle.ConstantTimeCompare(hash[:], k.hash[:]) == 1 {
			found, ok = k, true
		}
	}
	return found, ok
}
