package koala

import "path/filepath"

// A Dump is the policy in force.
type Dump struct {
	Version string         `json:"version"`
	File    string         `json:"file"`
	Dicts   []DumpedDict   `json:"dicts"`
	Rules   []DumpedRule   `json:"rules"`
	Results map[int]Result `json:"results"`
}

// A DumpedDict is a dict with its file.
type DumpedDict struct {
	Name string `json:"name"`
	File string `json:"file"`
}

// A DumpedRule is a rule as parsed.
type DumpedRule struct {
	Rule   int      `json:"rule_no"`
	Method string   `json:"method"`
	Keys   []string `json:"keys"` // its conditions, as written in the file
	Base   int      `json:"base,omitempty"`
	Time   int      `json:"time"`
	Count  int      `json:"count"`
	Erase1 int      `json:"erase1,omitempty"`
	Erase2 int      `json:"erase2,omitempty"`
	Result int      `json:"result"`
	Line   int      `json:"line"`
}

// Policy returns the policy in force. Files are given by name only.
func (s *Service) Policy() Dump {
	p := s.policy()
	d := Dump{Version: p.version, File: filepath.Base(p.file.path), Dicts: []DumpedDict{}, Rules: []DumpedRule{}, Results: p.file.results}
	for _, one := range p.file.dicts {
		d.Dicts = append(d.Dicts, DumpedDict{one.name, filepath.Base(one.path)})
	}
	for _, r := range p.file.rules {
		keys := make([]string, 0, len(r.conditions))
		for _, c := range r.conditions {
			keys = append(keys, c.at.text)
		}
		d.Rules = append(d.Rules, DumpedRule{
			r.code, r.method, keys, r.base, r.seconds, r.count, r.erase[0], r.erase[1], r.result,
			r.at.line.number,
		})
	}
	return d
}
