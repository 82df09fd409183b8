package attachment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"
)

// writer records the deadlines that it is given.
type writer struct {
	*httptest.ResponseRecorder

	until []time.Duration // from the beginning on
	began time.Time
}

func (w *writer) SetWriteDeadline(at time.Time) error {
	w.until = append(w.until, at.Sub(w.began))
	return nil
}

// A client may take longer for what it has got, and no longer for having taken long.
func TestSlowReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writer{ResponseRecorder: httptest.NewRecorder(), began: time.Now()}
		c := echo.New().NewContext(httptest.NewRequest("GET", "/", nil), w)
		err := CSV(c, slog.New(slog.DiscardHandler), "list.csv", func(out io.Writer) error {
			for range 3 {
				if _, err := out.Write(make([]byte, slowest)); err != nil {
					return err
				}
				time.Sleep(5 * time.Second)
			}
			return nil
		})
		if err != nil || len(w.until) != 3 || w.until[0] != partWithin+time.Second || w.until[2] != partWithin+3*time.Second {
			t.Errorf("%v, %v", w.until, err)
		}
	})
}

// A file ends with the context of its request, with its cause as the error: a reader whose token was removed gets no further part.
func TestRevokedReaders(t *testing.T) {
	revoked := errors.New("revoked")
	for _, parts := range []int{0, 1} {
		w := httptest.NewRecorder()
		ctx, cancel := context.WithCancelCause(t.Context())
		c := echo.New().NewContext(httptest.NewRequestWithContext(ctx, "GET", "/", nil), w)
		var err error
		aborted := func() (thrown any) {
			defer func() { thrown = recover() }()
			err = CSV(c, slog.New(slog.DiscardHandler), "list.csv", func(out io.Writer) error {
				for i := range 3 {
					if i == parts {
						cancel(revoked)
					}
					if _, err := out.Write([]byte("part\n")); err != nil {
						return fmt.Errorf("writing: %w", context.Canceled)
					}
				}
				return nil
			})
			return nil
		}()
		if w.Body.String() != strings.Repeat("part\n", parts) || parts == 0 && err != revoked || (parts > 0) != (aborted == http.ErrAbortHandler) { //nolint:errorlint // both are the values themselves
			t.Errorf("after %d parts: %q, %v, %v", parts, w.Body, err, aborted)
		}
	}
}
