package failure_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/failure"
)

func TestError(t *testing.T) {
	conflict := errors.New("shop: conflict")
	late := fmt.Errorf("%w: late", conflict)
	for _, tt := range []struct {
		err        *failure.Error
		text, mine string // of Error and Text
		cause      bool
	}{
		{failure.New(conflict, "sale %s is closed", "a"), "shop: conflict: sale a is closed", "sale a is closed", false},
		{failure.At(conflict, "Stock", "is %d, and must be 1 or more", 0), "shop: conflict: Stock is 0, and must be 1 or more", "Stock is 0, and must be 1 or more", false},
		{failure.New(late, "by a day").WithCause(io.EOF), "shop: conflict: late: by a day: EOF", "by a day", true},
		{&failure.Error{Kind: conflict, RetryAfter: time.Second}, "shop: conflict", "", false},
		{(&failure.Error{Kind: conflict}).WithCause(io.EOF), "shop: conflict: EOF", "", true},
	} {
		wrapped := fmt.Errorf("put: %w", tt.err)
		found, ok := errors.AsType[*failure.Error](wrapped)
		if tt.err.Error() != tt.text || tt.err.Text() != tt.mine || !ok || found != tt.err {
			t.Errorf("%q, %q; want %q, %q", tt.err.Error(), tt.err.Text(), tt.text, tt.mine)
		}
		if !errors.Is(wrapped, conflict) || errors.Is(wrapped, io.EOF) != tt.cause {
			t.Errorf("%v: kind %v, cause %v", wrapped, errors.Is(wrapped, conflict), errors.Is(wrapped, io.EOF))
		}
	}
}
