package httpapi

import (
	"compress/gzip"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// TestDocumentsOfCrowds: the documents that crowds read have an ETag, and are compressed where that makes them smaller.
func TestDocumentsOfCrowds(t *testing.T) {
	b := setup(t, withRooms(t))
	call(b.Internal(), "PUT", door, definitionOf("fifo", -time.Minute, ""))
	large := flash
	large.ID, large.Items = "large", nil
	for i := range 100 {
		large.Items = append(large.Items, orders.Item{ID: fmt.Sprint("shoe-", i), Stock: 1})
	}
	b.orders.sales = append(b.orders.sales, large)
	for path, packed := range map[string]bool{"/v1/sales/flash": false, "/v1/sales/large": true, door: false} {
		// A slow machine may take longer than the document is shared for.
		for try := range 10 {
			first := call(b.Public(), "GET", path, "", "Accept-Encoding", "gzip")
			tag := first.Header().Get("Etag")
			again := call(b.Public(), "GET", path, "", "Accept-Encoding", "gzip", "If-None-Match", tag)
			if again.Code == 200 && try < 9 {
				continue
			}
			if tag == "" || again.Code != 304 || again.Body.Len() != 0 || again.Header().Get("Etag") != tag || again.Header().Get("Cache-Control") != "max-age=1" {
				t.Errorf("%s again: %d %v", path, again.Code, again.Header())
			}
			plain := call(b.Public(), "GET", path, "")
			text, ok := first.Body.String(), first.Header().Get("Content-Encoding") == "gzip"
			if ok {
				unpacked, err := gzip.NewReader(first.Body)
				if err != nil {
					t.Fatal(err)
				}
				content, err := io.ReadAll(unpacked)
				if err != nil {
					t.Fatal(err)
				}
				text = string(content)
				if first.Header().Get("Vary") != "Accept-Encoding" || plain.Header().Get("Vary") != "Accept-Encoding" || plain.Header().Get("Etag") == tag {
					t.Errorf("%s: %v, and plain %v", path, first.Header(), plain.Header())
				}
			}
			if plain.Body.String() != text && try < 9 {
				continue
			}
			if ok != packed || plain.Body.String() != text || plain.Header().Get("Content-Encoding") != "" {
				t.Errorf("%s: %v\n%s\n%s", path, first.Header(), text, plain.Body)
			}
			break
		}
	}
}
