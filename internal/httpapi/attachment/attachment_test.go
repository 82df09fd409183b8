package attachment

import (
	"io"
	"log/slog"
	"net/http/httptest"
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
