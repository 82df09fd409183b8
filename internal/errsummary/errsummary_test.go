package errsummary_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/errsummary"
)

func TestJoin(t *testing.T) {
	eof := fmt.Errorf("item 1: %w", io.EOF)
	var loop error
	for i := range 500 {
		loop = errsummary.Join(loop, fmt.Errorf("item %d: %s %w", i, strings.Repeat("x", 80), io.ErrClosedPipe))
	}
	for _, tt := range []struct {
		errs []error
		want string
	}{
		{nil, "<nil>"},
		{[]error{nil, nil}, "<nil>"},
		{[]error{nil, eof}, "item 1: EOF"},
		{[]error{nil, eof, nil, fs.ErrExist}, "item 1: EOF (and 1 more errors)"},
		{[]error{loop, eof}, "item 0: " + strings.Repeat("x", 80) + " io: read/write on closed pipe (and 500 more errors)"},
	} {
		err := errsummary.Join(tt.errs...)
		if fmt.Sprint(err) != tt.want {
			t.Errorf("%v, want %s", err, tt.want)
		}
		for _, one := range tt.errs {
			if one != nil && !errors.Is(err, one) && !errors.Is(one, io.ErrClosedPipe) { // loop is taken apart
				t.Errorf("%v is not %v", err, one)
			}
		}
	}
	if !errors.Is(errsummary.Join(loop, eof), io.EOF) || !errors.Is(loop, io.ErrClosedPipe) {
		t.Error("an error is not found")
	}
	wrapped := fmt.Errorf("sweep: %w", loop)
	if got := errsummary.Join(wrapped, eof).Error(); !strings.HasPrefix(got, "sweep: ") {
		t.Errorf("%s: a wrapped summary lost its text", got)
	}
}
