package response

import (
	"encoding/base64"

	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/internal/keyhash"
)

// Paging is the parameters of a list.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before"`
}

// A Page is the response of every list.
type Page[T any] struct {
	_ struct{} `additionalProperties:"true"`

	Items      []T     `json:"items"`
	NextCursor *string `json:"next_cursor" doc:"null: this was the last page"`
}

// PageOutput is the response with a page.
type PageOutput[T any] struct {
	CacheControl string `header:"Cache-Control"`
	Body         Page[T]
}

// PageOf returns found as a page. If more may follow, the next page begins after the last of found.
func PageOf[T, V any](found []T, more bool, view func(*T) V, id func(*T) []byte) *PageOutput[V] {
	out := &PageOutput[V]{CacheControl: "no-store", Body: Page[V]{Items: make([]V, len(found))}}
	for i := range found {
		out.Body.Items[i] = view(&found[i])
	}
	if more {
		out.Body.NextCursor = Cursor(id(&found[len(found)-1]))
	}
	return out
}

// HistoryPage returns a page of events, the newest first. list returns up to Limit of them: those after the one with the ID
// after, or from the newest if that is empty.
func HistoryPage[E, V any](in Paging, list func(after string) ([]E, error), view func(*E) V, id func(*E) string) (*PageOutput[V], error) {
	after, err := afterID(in.Cursor)
	if err != nil {
		return nil, err
	}
	events, err := list(after)
	if err != nil {
		return nil, err
	}
	return PageOf(events, len(events) == in.Limit, view, func(e *E) []byte { return []byte(id(e)) }), nil
}

// Cursor returns the cursor of the page after an entry.
func Cursor(after []byte) *string {
	s := base64.RawURLEncoding.EncodeToString(after)
	return &s
}

// ParseCursor is the reverse of Cursor.
func ParseCursor(s string) ([]byte, error) {
	after, err := keyhash.DecodeRawURL(s)
	if err != nil {
		return nil, InvalidCursor()
	}
	return after, nil
}

// afterID decodes the ID of an event from a cursor. The database may be unable to compare other texts.
func afterID(s string) (id string, err error) {
	after, err := ParseCursor(s)
	if err != nil || len(after) > 0 && !input.Visible(string(after), 128) {
		return "", InvalidCursor()
	}
	return string(after), nil
}

// InvalidCursor returns the problem of a cursor that no page had.
func InvalidCursor() error {
	return problem.InvalidAt("query.cursor", "must be a next_cursor of this list")
}
