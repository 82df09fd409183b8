package semregistry

import (
	"fmt"
	"slices"
	"time"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/internal/names"
	"github.com/tidegate/tidegate/internal/rulesfile"
	"github.com/tidegate/tidegate/semaphore"
)

// A Declaration is the definition of a semaphore in a rules file.
type Declaration struct {
	Name string // 1 to 64 of a-z 0-9 -, or a hash tag of the same characters, a colon and a name
	Size
}

// Section is the section `semaphores` of the rules file.
var Section = rulesfile.NewSection("semaphores", read)

// Declarations returns the semaphores of the file, in its order.
func Declarations(set *rules.Set) ([]Declaration, error) {
	all, err := Section.In(set.Sections())
	if err != nil {
		return nil, fmt.Errorf("semregistry: %w", err)
	}
	return slices.Clone(all), nil
}

// BuiltIn returns the semaphores of the built-in rules.
func BuiltIn() []Declaration {
	all, err := Declarations(rules.Default())
	if err != nil {
		panic(err) // the file is embedded and tested
	}
	return all
}

func read(n *rulesfile.Node) (all []Declaration, err error) {
	seen := map[string]bool{}
	err = n.Pairs("semaphores", func(at, n *rulesfile.Node) error {
		name := at.Name()
		if !names.Semaphore(name) || seen[name] {
			return at.Wrong("%q is no name of a semaphore of its own, it should be "+names.Length+" of a-z 0-9 -, or a hash tag of the same "+
				"before a colon and a name", name)
		}
		seen[name] = true
		d := Declaration{Name: name, Size: Size{Lease: semaphore.DefaultLease}}
		err := n.Fields("a semaphore",
			rulesfile.Number("limit", &d.Limit, 0, semaphore.MaxLimit),
			rulesfile.Into("lease", &d.Lease, func(n *rulesfile.Node) (time.Duration, error) {
				lease, err := n.Duration("lease")
				if err == nil && (lease < semaphore.MinLease || lease > semaphore.MaxLease) {
					err = n.Wrong("lease should be from 1s to 1h, here is %v", lease)
				}
				return lease, err
			}),
		)
		if err == nil && n.Key("limit") == nil {
			err = n.Wrong("semaphore %q has no limit, it should be such as {limit: 2, lease: 15s}", name)
		}
		all = append(all, d)
		return err
	})
	return all, err
}
