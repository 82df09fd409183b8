package response

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

	"github.com/tidegate/tidegate/internal/export"
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
		err := SendFile(c, slog.New(slog.DiscardHandler), "list", func(out io.Writer, _ export.Format) error {
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
			err = SendFile(c, slog.New(slog.DiscardHandler), "list", func(out io.Writer, _ export.Format) error {
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

// A client gets NDJSON if it takes that, and CSV otherwise.
func TestFormats(t *testing.T) {
	for accept, want := range map[string]export.Format{
		"": export.CSV, "*/*": export.CSV, "text/csv": export.CSV, "application/json": export.CSV, "x;;": export.CSV,
		"application/x-ndjson": export.NDJSON, "text/html, application/x-ndjson;q=0.5": export.NDJSON, "Application/X-NDJSON": export.NDJSON,
		"application/x-ndjson;q=0": export.CSV, "application/x-ndjson;q=x": export.CSV,
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		if accept != "" {
			r.Header.Set("Accept", accept)
		}
		err := SendFile(echo.New().NewContext(r, w), slog.New(slog.DiscardHandler), "list", func(out io.Writer, f export.Format) error {
			if f != want {
				t.Errorf("%q: %s", accept, f)
			}
			_, err := io.WriteString(out, "{}\n")
			return err
		})
		kind, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
		if name := w.Header().Get("Content-Disposition"); err != nil || kind != string(want) || !strings.Contains(name, `"list`+want.Extension()+`"`) || w.Header().Get("Vary") != "Accept" {
			t.Errorf("%q: %v, %v", accept, err, w.Header())
		}
	}
}
