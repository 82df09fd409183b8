package firewall

import (
	"path"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/internal/rulesfile"
)

// Defaults of a Script.
const (
	defaultPerMinute               = 60
	defaultWidest4, defaultWidest6 = 24, 48
)

// A Script configures the program that passes bans on.
type Script struct {
	Argv      []string // absolute path of the program, and its first arguments; empty: none
	PerMinute int      // maximum bans passed on within a minute
	Widest4   int      // shortest IPv4 prefix passed on, in bits
	Widest6   int      // the same for IPv6
}

// Section is the section `bans` of the rules file, but for its key allow, which package rules reads.
var Section = rulesfile.NewSection("bans", read)

// scriptOf returns the script of the file. Rules whose section is invalid have none; there are none where Section was given to rules.Load.
func scriptOf(set *rules.Set) Script {
	script, _ := Section.In(set.Sections())
	return script
}

func read(n *rulesfile.Node) (script Script, err error) {
	script = Script{PerMinute: defaultPerMinute, Widest4: defaultWidest4, Widest6: defaultWidest6}
	err = n.Fields("bans", append(rulesfile.Others("allow"),
		rulesfile.Key("run", func(_, n *rulesfile.Node) error {
			return n.List("run", func(n *rulesfile.Node) error {
				arg, err := n.Text("an argument of run")
				if err == nil && len(script.Argv) == 0 && !path.IsAbs(arg) {
					err = n.Wrong("run should begin with the absolute path of a program, here is %.60q", arg)
				}
				script.Argv = append(script.Argv, arg)
				return err
			})
		}),
		rulesfile.Number("per_minute", &script.PerMinute, 1, 100_000),
		// No ban is of a wider network, and none of a narrower one, see bans.ParseTarget.
		rulesfile.Number("widest_v4", &script.Widest4, 8, 32),
		rulesfile.Number("widest_v6", &script.Widest6, 16, 64),
	)...)
	return script, err
}
