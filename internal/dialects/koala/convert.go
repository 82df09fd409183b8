package koala

import "time"

// Convert translates the rule file at path, or the one named by the koala.conf there, to an equivalent rules file, with warnings.
// Comments keep their places; settings without an equivalent become comments. The error is that of New.
func Convert(path string, zone *time.Location) (yaml []byte, warnings []string, err error) {
	p, rules, err := load(path, zone)
	if err != nil {
		return nil, nil, err
	}
	return rules.Source(), p.warnings, nil
}
