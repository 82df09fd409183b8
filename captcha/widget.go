package captcha

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/http"
	"time"
)

//go:embed widget/widget.js widget/altcha.min.js widget/altcha.css widget/sha.js widget/LICENSE.txt
var widgetFiles embed.FS

// widgetTypes are the content types of all files. The MIME tables of the machine are not used.
var widgetTypes = map[string]string{
	"widget.js":     "text/javascript; charset=utf-8",
	"altcha.min.js": "text/javascript; charset=utf-8",
	"sha.js":        "text/javascript; charset=utf-8",
	"altcha.css":    "text/css; charset=utf-8",
	"LICENSE.txt":   "text/plain; charset=utf-8",
}

// Widget serves the browser part of ProofOfWork: widget.js, the module that defines <altcha-widget>, altcha.css, and the files that they
// load. They load nothing from other origins, and work under the policy "default-src 'self'". Browsers revalidate the files at each use.
//
//	mux.Handle("/captcha/", http.StripPrefix("/captcha/", captcha.Widget()))
//
//	<link rel="stylesheet" href="/captcha/altcha.css">
//	<script type="module" src="/captcha/widget.js"></script>
//	<form method="post"><altcha-widget challenge="/v1/captcha/challenge?purpose=order"></altcha-widget></form>
//
// The form then has the field altcha, the token for Verify. Solving needs a secure context: HTTPS, or localhost.
func Widget() http.Handler {
	type file struct {
		content []byte
		kind    string
		tag     string
	}
	files := make(map[string]file, len(widgetTypes))
	for name, kind := range widgetTypes {
		content, err := fs.ReadFile(widgetFiles, "widget/"+name)
		if err != nil {
			panic("captcha: " + err.Error()) // widgetTypes and the embedded files differ
		}
		sum := sha256.Sum256(content)
		files[name] = file{content, kind, `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", f.kind)
		h.Set("Cache-Control", "no-cache")
		h.Set("Etag", f.tag)
		h.Set("X-Content-Type-Options", "nosniff")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
	})
}
