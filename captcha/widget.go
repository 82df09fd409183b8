package captcha

import (
	"embed"
	"net/http"

	"github.com/tidegate/tidegate/internal/staticfiles"
)

//go:embed widget/widget.js widget/altcha.min.js widget/altcha.css widget/sha.js widget/LICENSE.txt
var widgetFiles embed.FS

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
func Widget() http.Handler { return staticfiles.Handler(widgetFiles, "widget") }
