package semregistry

import (
	"fmt"
	"slices"

	"github.com/goccy/go-yaml/ast"

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
var Section = rulesfile.NewSection("semaphores", parse)

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

func parse(f *rulesfile.File, n ast.Node) (all []Declaration, err error) {
	seen := map[string]bool{}
	err = f.Pairs(n, "semaphores", func(name string, at, n ast.Node) error {
		if !names.Semaphore(name) || seen[name] {
			return f.Wrong(at, "%q is no name of a semaphore of its own, it should be 1 to 64 of a-z 0-9 -, or a hash tag of the same before a colon and a name", name)
		}
		seen[name] = true
		d, limited := Declaration{Name: name, Size: Size{Lease: semaphore.DefaultLease}}, false
		err := f.Mapping(n, "a semaphore",
			rulesfile.Key("limit", func(_, n ast.Node) (err error) {
				limited = true
				d.Limit, err = f.Number(n, "limit", 0, semaphore.MaxLimit)
				return err
			}),
			rulesfile.Key("lease", func(_, n ast.Node) (err error) {
				d.Lease, err = f.Duration(n, "lease")
				if err == nil && (d.Lease < semaphore.MinLease || d.Lease > semaphore.MaxLease) {
					err = f.Wrong(n, "lease should be from 1s to 1h, here is %v", d.Lease)
				}
				return err
			}),
		)
		if err == nil && !limited {
			err = f.Wrong(n, "semaphore %q has no limit, it should be such as {limit: 2, lease: 15s}", name)
		}
		all = append(all, d)
		return err
	})
	return all, err
}
