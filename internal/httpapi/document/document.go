package document

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"

	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/internal/staticfiles"
)

// worthPacking is the size in bytes from which on a document is compressed. A smaller one fits into one packet as it is.
const worthPacking = 1400

// A Document is a text in memory. Make it with New. It is safe for concurrent use.
type Document struct {
	plain  []byte
	tag    string
	packed func() []byte
}

// New returns a document. It is compressed, at a level of package gzip, when the first client takes it so.
func New(text []byte, level int) *Document {
	sum := sha256.Sum256(text)
	return &Document{plain: text, tag: base64.RawURLEncoding.EncodeToString(sum[:12]), packed: sync.OnceValue(func() []byte {
		var packed bytes.Buffer
		w, _ := gzip.NewWriterLevel(&packed, level) // the level exists
		_, _ = w.Write(text)                        // into memory
		_ = w.Close()
		return packed.Bytes()
	})}
}

// ServeHTTP answers with the document, whose other header fields are set, or with 304 if the client has it.
func (d *Document) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h, body := w.Header(), d.plain
	h.Set("Etag", `"`+d.tag+`"`)
	if len(d.plain) >= worthPacking {
		h.Add("Vary", "Accept-Encoding")
		if takesGzip(r.Header) {
			body = d.packed()
			h.Set("Etag", `"`+d.tag+`-gzip"`)
			h.Set("Content-Encoding", "gzip")
		}
	}
	staticfiles.Serve(w, r, body)
}

// Text returns what the document is of. It must not be changed.
func (d *Document) Text() []byte { return d.plain }

// An Output is a response of Huma.
type Output struct {
	CacheControl string `header:"Cache-Control"`
	Body         func(huma.Context)
}

// JSON returns the response with a document that is JSON and may be kept for a second.
func (d *Document) JSON() *Output {
	return &Output{"max-age=1", func(ctx huma.Context) {
		c := humaecho.Unwrap(ctx)
		c.Response().Header()["Content-Type"] = response.JSON
		d.ServeHTTP(c.Response(), c.Request())
	}}
}

// takesGzip reports whether the client accepts gzip (RFC 9110, 12.5.3).
func takesGzip(header http.Header) bool {
	for coding := range strings.SplitSeq(strings.Join(header["Accept-Encoding"], ","), ",") {
		name, weight, _ := strings.Cut(strings.ReplaceAll(coding, " ", ""), ";")
		if strings.EqualFold(name, "gzip") {
			q, err := strconv.ParseFloat(strings.TrimPrefix(strings.ToLower(weight), "q="), 64)
			return weight == "" || err == nil && q > 0
		}
	}
	return false
}
