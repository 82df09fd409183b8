package serve

import (
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/firewall"
	"github.com/tidegate/tidegate/internal/semregistry"
	"github.com/tidegate/tidegate/login"
)

// sections are those that other packages than rules parse.
var sections = []rules.Section{login.Section, semregistry.Section, firewall.Section}

// LoadRules loads a rules file, all sections of which are valid.
func LoadRules(path string) (*rules.Set, error) { return rules.Load(path, sections...) }

func rulesOf(cfg *config.Config) (*rules.Set, error) {
	if cfg.RulesFile == "" {
		return rules.Default(), nil
	}
	rules, err := LoadRules(cfg.RulesFile)
	return rules, wrap("RULES_FILE", err)
}
