// Package staticfiles serves files that are embedded in the program.
package staticfiles

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
	"time"
)

// types are the content types by extension. The MIME tables of the machine are not used.
var types = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
	".txt": "text/plain; charset=utf-8", ".md": "text/plain; charset=utf-8", "": "text/plain; charset=utf-8",
}

// Handler serves the files below folder by their path in it. Browsers revalidate them at each use. It panics if files has no such folder,
// or if a file has another extension.
func Handler(files fs.FS, folder string) http.Handler {
	type file struct {
		content   []byte
		kind, tag string
	}
	served := map[string]file{}
	err := fs.WalkDir(files, folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		kind, ok := types[path.Ext(name)]
		if !ok {
			panic("staticfiles: no content type for " + name)
		}
		content, err := fs.ReadFile(files, name)
		sum := sha256.Sum256(content)
		served[name[len(folder)+1:]] = file{content, kind, `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}
		return err
	})
	if err != nil {
		panic(err) // the files are embedded
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, ok := served[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", f.kind)
		h.Set("Cache-Control", "no-cache")
		h.Set("Etag", f.tag)
		h.Set("X-Content-Type-Options", "nosniff")
		Serve(w, r, f.content)
	})
}

// Serve answers with content that is in memory, whose header is set but for its length, or with 304. It serves no ranges: a
// request for thousands of them would cost as many parts.
func Serve(w http.ResponseWriter, r *http.Request, content []byte) {
	if r.Header.Get("Range") != "" {
		r = r.Clone(r.Context())
		r.Header.Del("Range")
	}
	http.ServeContent(rangeless{w}, r, "", time.Time{}, bytes.NewReader(content))
}

// rangeless takes back the offer of ranges that http.ServeContent makes.
type rangeless struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w rangeless) WriteHeader(status int) {
	w.Header().Del("Accept-Ranges")
	w.ResponseWriter.WriteHeader(status)
}
