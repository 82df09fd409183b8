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

// LintRules returns probable mistakes in rules of these programs.
func LintRules(set *rules.Set, trustedProxies bool) []rules.Warning {
	return rules.Lint(set, rules.Server{TrustedProxies: trustedProxies, Public: publicRoutes, Admit: "/v1/admit", Gateways: "/v1/authz"})
}

// publicRoutes are the routes that buyers call; a test of cmd/api compares them with the program.
var publicRoutes = []string{
	"/v1/sales/*",
	"/v1/sales/*/orders",
	"/v1/orders/*",
	"/v1/orders/*/cancel",
	"/v1/captcha/challenge",
	"/v1/rooms/*",
	"/v1/rooms/*/place",
	"/v1/rooms/*/place/claim",
	"/v1/rooms/*/events",
	"/v1/rooms/*/draw.csv",
	"/.well-known/jwks.json",
	"/.well-known/receipt-keys.json",
	"/vwr/queue_num",
	"/vwr/queue_pos_expiry",
	"/vwr/serving_num",
	"/vwr/waiting_num",
	"/vwr/generate_token",
	"/vwr/public_key",
}

func rulesOf(cfg *config.Config) (*rules.Set, error) {
	if cfg.RulesFile == "" {
		return rules.Default(), nil
	}
	rules, err := LoadRules(cfg.RulesFile)
	return rules, wrap("RULES_FILE", err)
}
