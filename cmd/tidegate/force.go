package main

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/apiclient"
)

// forceRequired is the reason why the server refuses to disrupt a sale.
const forceRequired = "force_required"

// addForceFlag adds --force, which sets the query of a call.
func addForceFlag(cmd *cobra.Command, force *bool) {
	cmd.Flags().BoolVar(force, "force", false, "also if that disrupts the sale while it is open or has orders")
}

func forceQuery(force bool) url.Values {
	if !force {
		return url.Values{}
	}
	return url.Values{"force": {"true"}}
}

// sendOrAsk makes a call. If the server refuses to disrupt a sale, it asks on a terminal, and makes the call with force.
func (a *internalAPI) sendOrAsk(cmd *cobra.Command, o options, method string, query url.Values, body any, path ...string) ([]byte, error) {
	answer, err := a.send(cmd.Context(), method, query, body, path...)
	refused, ok := errors.AsType[*apiclient.Refused](err)
	if !ok || refused.Reason != forceRequired {
		return answer, err
	}
	if o.yes || !isTerminal(cmd.InOrStdin()) {
		return nil, fmt.Errorf("%w; pass --force to do it", err)
	}
	what, _, _ := strings.Cut(refused.Detail, "; ?force=true")
	if err := confirm(cmd, "The change would disrupt the sale: "+what+". Change it nevertheless?"); err != nil {
		return nil, err
	}
	return a.send(cmd.Context(), method, forceQuery(true), body, path...)
}
