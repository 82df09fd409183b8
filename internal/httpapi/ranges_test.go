package httpapi

import (
	"strings"
	"testing"
)

// TestNoRanges: one request for thousands of parts of a document would cost as much as thousands of requests.
func TestNoRanges(t *testing.T) {
	b := setup(t, withRooms(t))
	ranges := "bytes=0-0" + strings.Repeat(",1-1", 2700)
	for _, path := range []string{"/docs", "/openapi.json", "/rooms/files/room.js", "/rooms/files/captcha/widget.js"} {
		whole := call(b.Public(), "GET", path, "")
		for _, asked := range []string{ranges, "bytes=0-0", "bytes=99999999-"} {
			w := call(b.Public(), "GET", path, "", "Range", asked)
			if w.Code != 200 || w.Body.Len() != whole.Body.Len() || w.Header().Get("Content-Type") != whole.Header().Get("Content-Type") {
				t.Errorf("%s, %.20s: %d, %d bytes, %v", path, asked, w.Code, w.Body.Len(), w.Header())
			}
		}
	}
}
