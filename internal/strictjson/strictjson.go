package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
)

// Format is JSON that all parsers understand alike, without invalid characters. encoding/json replaces those by U+FFFD, so
// two payment references, or two users, that differ only there would become equal.
var Format = huma.Format{
	Marshal: huma.DefaultJSONFormat.Marshal,
	Unmarshal: func(body []byte, into any) error {
		if err := CheckText(body); err != nil {
			return err
		}
		if err := json.Unmarshal(body, into); err != nil {
			return err
		}
		if _, first := into.(*any); !first { // Huma decodes a body twice
			return nil
		}
		return (&walk{decoder: json.NewDecoder(bytes.NewReader(body))}).value()
	},
}

// A walk checks valid JSON for what the API does not accept.
type walk struct {
	decoder *json.Decoder
	path    []string
}

// misplaced is an error at a location in a body. Huma keeps only its text, which humaProblem splits again.
type misplaced struct{ at, message string }

const Separator = "\x00"

func (e *misplaced) Error() string { return e.at + Separator + e.message }

func (w *walk) wrong(message string) error {
	return &misplaced{"body" + strings.Join(w.path, ""), message}
}

// value refuses duplicate keys in an object, of which some parsers take the first and others the last, and null, which is
// neither a value nor its absence.
func (w *walk) value() error {
	token, err := w.decoder.Token()
	if err != nil {
		return err
	}
	switch token {
	case nil:
		return w.wrong("must not be null; leave it out for the default")
	case json.Delim('{'):
		return w.members()
	case json.Delim('['):
		return w.elements()
	}
	return nil
}

func (w *walk) members() error {
	seen := map[string]bool{}
	for w.decoder.More() {
		token, err := w.decoder.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		w.path = append(w.path, "."+key)
		if seen[key] {
			return w.wrong("must be given once")
		}
		seen[key] = true
		if err := w.value(); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
	_, err := w.decoder.Token()
	return err
}

func (w *walk) elements() error {
	for i := 0; w.decoder.More(); i++ {
		w.path = append(w.path, "["+strconv.Itoa(i)+"]")
		if err := w.value(); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
	_, err := w.decoder.Token()
	return err
}

// CheckText refuses bytes that are not UTF-8, and escapes of unpaired surrogates.
func CheckText(body []byte) error {
	for i := 0; i < len(body); {
		r, size := utf8.DecodeRune(body[i:])
		if r == utf8.RuneError && size == 1 {
			return fmt.Errorf("is not valid UTF-8 at byte %d", i)
		}
		if r != '\\' {
			i += size
			continue
		}
		first, ok := escaped(body[i:])
		switch {
		case !ok:
			i += 2 // another escape; or an invalid one, which the parser refuses
		case !utf16.IsSurrogate(first):
			i += 6
		default:
			if second, _ := escaped(body[i+6:]); utf16.DecodeRune(first, second) == utf8.RuneError {
				return fmt.Errorf("has %s at byte %d, which is half a character", body[i:i+6], i)
			}
			i += 12
		}
	}
	return nil
}

// escaped decodes \u and four hex digits.
func escaped(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n), err == nil
}
