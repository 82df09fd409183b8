package response_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/httpapi/response"
)

var errAway = errors.New("away")

// listed returns up to limit of n numbers in descending order, those below after.
func listed(n, limit int) func(after string) ([]int, error) {
	return func(after string) (list []int, err error) {
		if after != "" {
			n, err = strconv.Atoi(after)
		}
		for i := n - 1; i >= 0 && len(list) < limit; i-- {
			list = append(list, i)
		}
		return list, err
	}
}

func view(n *int) string { return "#" + strconv.Itoa(*n) }
func id(n *int) string   { return strconv.Itoa(*n) }

// TestHistory: whoever follows the cursors sees each entry once, and ends.
func TestHistory(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 4, 6, 7} {
		const limit = 3
		in, seen, pages := response.Paging{Limit: limit}, []string(nil), 0
		for {
			out, err := response.HistoryPage(in, listed(n, limit), view, id)
			if err != nil {
				t.Fatal(err)
			}
			if out.Body.Items == nil || len(out.Body.Items) > limit {
				t.Fatalf("a page of %d: %v", n, out.Body.Items)
			}
			seen = append(seen, out.Body.Items...)
			if pages++; out.Body.NextCursor == nil {
				break
			}
			in.Cursor = *out.Body.NextCursor
		}
		if want := n/limit + 1; pages != want { // a full page may be the last one
			t.Errorf("%d pages of %d entries, want %d", pages, n, want)
		}
		for i := range seen {
			if seen[i] != "#"+strconv.Itoa(n-1-i) || len(seen) != n {
				t.Fatalf("of %d: %v", n, seen)
			}
		}
	}
	if _, err := response.HistoryPage(response.Paging{Limit: 3}, func(string) ([]int, error) { return nil, errAway }, view, id); !errors.Is(err, errAway) {
		t.Error(err)
	}
}

func TestOf(t *testing.T) {
	bytes := func(n *int) []byte { return []byte{byte(*n)} }
	last := response.PageOf([]int{3, 2}, false, view, bytes).Body
	if !slices.Equal(last.Items, []string{"#3", "#2"}) || last.NextCursor != nil {
		t.Errorf("%+v", last)
	}
	more := response.PageOf([]int{3, 2}, true, view, bytes).Body
	if more.NextCursor == nil {
		t.Fatal("no cursor")
	}
	if after, err := response.ParseCursor(*more.NextCursor); err != nil || !slices.Equal(after, []byte{2}) {
		t.Errorf("%v, %v", after, err)
	}
}

// TestCursors: a text that no page had is refused, before the list is read.
func TestCursors(t *testing.T) {
	cursor := func(text string) string { return *response.Cursor([]byte(text)) }
	for text, valid := range map[string]bool{
		"": true, cursor("7"): true, cursor(strings.Repeat("x", 128)): true, cursor(strings.Repeat("x", 129)): false, cursor("a b"): false,
		cursor("a\x00"): false, cursor("é"): false, "!": false, "N": false, cursor("7") + "=": false, cursor("7") + "\n": false, "Nx": false,
	} {
		read := false
		_, err := response.HistoryPage(response.Paging{Limit: 1, Cursor: text}, func(string) ([]int, error) { read = true; return nil, nil }, view, id)
		if valid != (err == nil) || valid != read || !valid && err.Error() != response.InvalidCursor().Error() {
			t.Errorf("%q: %v, read: %v", text, err, read)
		}
	}
}
