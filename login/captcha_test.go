package login_test

import (
	"context"
	"net/netip"

	"github.com/tidegate/tidegate/captcha"
)

// everything verifies whatever is right, each time.
type everything struct{}

func (everything) Verify(_ context.Context, token string, _ captcha.Binding, _ netip.Addr) error {
	if token == "right" {
		return nil
	}
	return &captcha.RefusedError{Cause: captcha.CauseWrong}
}
