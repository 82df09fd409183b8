package koala

import "time"

// Convert returns the rules file that decides as the rule file at path, or the one that the koala.conf there names, and what else is to be
// said. Comments stay where they are; what rules files have no words for becomes one. The error is that of New.
func Convert(path string, zone *time.Location) (yaml []byte, warnings []string, err error) {
	p, rules, err := load(path, zone)
	if err != nil {
		return nil, nil, err
	}
	return rules.Source(), p.warnings, nil
}
