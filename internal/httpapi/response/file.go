package response

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/export"
)

// A client may take partWithin longer than at slowest for all that it has got; one that takes longer is considered gone.
// Otherwise a few clients that read slowly on purpose would keep the files from everybody else.
const (
	partWithin = 30 * time.Second
	slowest    = 32 << 10 // bytes a second
)

// FileTypes are the media types of files.
var FileTypes = []string{string(export.CSV), string(export.NDJSON)}

// LimitedFileText documents how a client chooses between them, for routes that need a permit.
const LimitedFileText = "Takes a permit of the semaphore `report`, and waits up to 10 s for one. An answer that is cut off is not whole. " +
	"CSV is for spreadsheets: a text that one could take for a formula has an apostrophe before each sign at which that would begin, " +
	"so that a user `+4915…` becomes `'+4915…`. Programs send `Accept: application/x-ndjson`: a JSON object per line with the same " +
	"fields, every text as it is stored, and null for what is unknown."

// SendFile answers with what write writes in the format that the client takes, as a file of this name with the format's
// extension. The header is sent with the first part, so an error before that becomes a problem. Later the response is cut off.
// Nothing is sent after the request's context has ended.
func SendFile(c echo.Context, log *slog.Logger, name string, write func(io.Writer, export.Format) error) error {
	ctx, f := c.Request().Context(), accepted(c.Request().Header)
	name += f.Extension()
	err := write(&file{ctx: ctx, c: c, name: name, format: f}, f)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil || !c.Response().Committed {
		return err
	}
	if !errors.Is(err, context.Canceled) {
		log.WarnContext(ctx, "a file was cut off", "file", name, "error", err)
	}
	panic(http.ErrAbortHandler) // a partial response must not look complete
}

// accepted returns the format that a client takes (RFC 9110, 12.5.1): CSV unless it names NDJSON.
func accepted(header http.Header) export.Format {
	for part := range strings.SplitSeq(strings.Join(header["Accept"], ","), ",") {
		kind, parameters, err := mime.ParseMediaType(part)
		if weight, weighted := parameters["q"]; err == nil && kind == string(export.NDJSON) {
			if q, err := strconv.ParseFloat(weight, 64); !weighted || err == nil && q > 0 {
				return export.NDJSON
			}
		}
	}
	return export.CSV
}

// A file is a response that is a file.
type file struct {
	ctx    context.Context
	c      echo.Context
	name   string
	format export.Format
	began  time.Time // when the first part was sent
	sent   int64     // bytes
}

func (f *file) Write(part []byte) (int, error) {
	w := f.c.Response()
	first := f.began.IsZero()
	if first {
		f.began = time.Now()
	}
	// The server's own deadline is meant for responses in one piece.
	until := f.began.Add(partWithin + time.Duration(f.sent+int64(len(part)))*time.Second/slowest)
	_ = http.NewResponseController(w).SetWriteDeadline(until) // a test's recorder has none
	if f.ctx.Err() != nil {
		return 0, context.Cause(f.ctx)
	}
	if first {
		h := w.Header()
		h.Set("Content-Type", "text/csv; charset=utf-8; header=present")
		if f.format == export.NDJSON {
			h.Set("Content-Type", string(export.NDJSON))
		}
		h.Add("Vary", "Accept")
		h.Set("Content-Disposition", `attachment; filename="`+f.name+`"`)
		h.Set("X-Content-Type-Options", "nosniff")
		h["Cache-Control"] = NoStore
		w.WriteHeader(http.StatusOK)
	}
	n, err := w.Write(part)
	f.sent += int64(n)
	return n, err
}
