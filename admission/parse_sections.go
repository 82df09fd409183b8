package admission

import (
	"path/filepath"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/tidegate/tidegate/internal/names"
)

// bans parses the section `bans`.
func (s *source) bans(n ast.Node, r *Rules) error {
	r.script = BanScript{PerMinute: defaultBansPerMinute, Widest4: defaultWidest4, Widest6: defaultWidest6}
	number := func(key string, to *int, least, most int) field {
		return field{key, func(_, n ast.Node) (err error) {
			*to, err = s.number(n, key, least, most)
			return err
		}}
	}
	return s.mapping(n, "bans",
		field{"allow", func(_, n ast.Node) error {
			return s.oneOrMore(n, "allow", func(n ast.Node) error {
				l, err := s.listNamed(n)
				if err == nil && l.empty() {
					s.idle = append(s.idle, Warning{Line: line(n), Text: "list " + l.name + " is empty: nobody is kept from being banned. Fill it, or leave out bans.allow"})
				}
				r.never = append(r.never, l)
				return err
			})
		}},
		field{"run", func(_, n ast.Node) error {
			return s.list(n, "run", func(n ast.Node) error {
				arg, err := s.text(n, "an argument of run")
				if err == nil && len(r.script.Argv) == 0 && !filepath.IsAbs(arg) {
					err = s.wrong(n, "run should begin with the absolute path of a program, here is %.60q", arg)
				}
				r.script.Argv = append(r.script.Argv, arg)
				return err
			})
		}},
		number("per_minute", &r.script.PerMinute, 1, 100_000),
		// No ban is of a wider network, and none of a narrower one, see bans.ParseTarget.
		number("widest_v4", &r.script.Widest4, 8, 32),
		number("widest_v6", &r.script.Widest6, 16, 64),
	)
}

// A SemaphoreRule is the definition of a semaphore in a rules file. This package only parses it.
type SemaphoreRule struct {
	Name  string        // 1 to 64 of a-z 0-9 -, or a hash tag of the same characters, a colon and a name
	Limit int           // maximum total weight of permits; 0 admits nobody
	Lease time.Duration // time until a permit expires that is not renewed: from a second to an hour
}

const (
	defaultLease       = 15 * time.Second
	minLease, maxLease = time.Second, time.Hour
	maxSemaphoreLimit  = 1_000_000
)

// semaphores parses the section `semaphores`.
func (s *source) semaphores(n ast.Node) (all []SemaphoreRule, err error) {
	seen := map[string]bool{}
	err = s.pairs(n, "semaphores", func(name string, at, n ast.Node) error {
		if !names.Semaphore(name) || seen[name] {
			return s.wrong(at, "%q is no name of a semaphore of its own, it should be 1 to 64 of a-z 0-9 -, or a hash tag of the same before a colon and a name", name)
		}
		seen[name] = true
		sem, limited := SemaphoreRule{Name: name, Lease: defaultLease}, false
		err := s.mapping(n, "a semaphore",
			field{"limit", func(_, n ast.Node) (err error) {
				limited = true
				sem.Limit, err = s.number(n, "limit", 0, maxSemaphoreLimit)
				return err
			}},
			field{"lease", func(_, n ast.Node) (err error) {
				sem.Lease, err = s.duration(n, "lease")
				if err == nil && (sem.Lease < minLease || sem.Lease > maxLease) {
					err = s.wrong(n, "lease should be from 1s to 1h, here is %v", sem.Lease)
				}
				return err
			}},
		)
		if err == nil && !limited {
			err = s.wrong(n, "semaphore %q has no limit, it should be such as {limit: 2, lease: 15s}", name)
		}
		all = append(all, sem)
		return err
	})
	return all, err
}
