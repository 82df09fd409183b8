package auth

import (
	"fmt"
	"slices"
)

// Role is what a token of the internal listener allows.
type Role string

// The roles.
const (
	RoleAdmit    Role = "admit"    // decisions, semaphores, logins, and reading and paying orders
	RoleMetrics  Role = "metrics"  // /metrics and nothing else
	RoleViewer   Role = "viewer"   // the page, lists, verify and explain; changes nothing
	RoleOperator Role = "operator" // everything
)

// tokens.go lists them in its errors.
var roles = []Role{RoleAdmit, RoleMetrics, RoleViewer, RoleOperator}

// Roles that may use a route, in addition to operators.
var (
	ForEverybody = []Role{"", RoleAdmit, RoleMetrics, RoleViewer} // also without a token
	ForOperators = []Role{}
	ForServices  = []Role{RoleAdmit}
	ForViewers   = []Role{RoleViewer}
	ForReaders   = []Role{RoleAdmit, RoleViewer}
	ForScrapers  = []Role{RoleMetrics}
)

// May reports whether a caller of this role may use a route for the given roles.
func (r Role) May(roles []Role) bool { return r == RoleOperator || slices.Contains(roles, r) }

// OnlyOperators reports whether a route for the given roles is for operators alone. The audit log has the calls of such routes.
func OnlyOperators(roles []Role) bool { return len(roles) == 0 }

// WrongRole returns the error that names the roles that may use a route.
func WrongRole(has Role, roles []Role) error {
	right := string(RoleOperator)
	for _, r := range roles {
		right = string(r) + " or " + right
	}
	return &ForbiddenError{Detail: fmt.Sprintf("The token has the role %s, and this call needs %s.", has, right)}
}
