package input_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tidegate/tidegate/internal/input"
)

func TestVisible(t *testing.T) {
	for s, want := range map[string]bool{
		"": false, "a": true, "abcd": true, "abcde": false, "!": true, "~": true, " ": false, "a b": false, "\x7f": false, "\t": false, "\x00": false,
		"é": false, "\xff": false, "ab\n": false, " ab": false, "ab ": false,
	} {
		if got := input.Visible(s, 4); got != want {
			t.Errorf("Visible(%q, 4) = %v", s, got)
		}
	}
}

func TestGuessable(t *testing.T) {
	for secret, want := range map[string]bool{
		"": true, strings.Repeat("a", 40): true, strings.Repeat("abcde", 8): true, "abcdef": false, strings.Repeat("abcdef", 8): false,
		"éàüöñß": false, "ééàààüüö": true,
	} {
		if got := input.Guessable(secret); got != want {
			t.Errorf("Guessable(%q) = %v", secret, got)
		}
	}
}

func TestPrintable(t *testing.T) {
	const long, invisible = "at most 6 characters", "must be printable"
	for s, want := range map[string]string{
		"": "", "abcdef": "", "abcdefg": long, "a b~!": "", "éàüöñß": "", "éàüöñßx": long, "日本語日本語": "", "🦆🦆🦆🦆🦆🦆": "", "🦆🦆🦆🦆🦆🦆🦆": long,
		"a\x1f": "U+001F", "a\x7f": "U+007F", "a\nb": "U+000A", "a\u00a0": "U+00A0", "\u200b": "U+200B", "\u202e": "U+202E",
		"a\u034f": "U+034F", "a\ufe0f": "U+FE0F", "\u3164": "U+3164", "\u2800": "U+2800", "\u00ad": invisible, "\U000e0100": invisible,
		"\u2801": "", // a Braille pattern with a dot
		"\ufffd": "U+FFFD",
		"\xff":   "valid UTF-8", "a\xc3": "valid UTF-8",
		"\xc0\xaf":         "valid UTF-8", // overlong
		"\xe0\x80\xaf":     "valid UTF-8",
		"\xed\xa0\x80":     "valid UTF-8", // half a pair
		"\xf4\x90\x80\x80": "valid UTF-8", // above the last character
	} {
		err := input.Printable(s, 6)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", s, err, want)
		}
	}
	if err := input.Printable(strings.Repeat("é", 6)+"\n", 7); err == nil {
		t.Error("a line break as the last character")
	}
}

func TestShortened(t *testing.T) {
	for _, s := range []string{"", "a", strings.Repeat("x", input.MaxQuoted)} {
		if got := input.Shortened(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
	for _, s := range []string{strings.Repeat("x", input.MaxQuoted+1), strings.Repeat("é", input.MaxQuoted), "a" + strings.Repeat("é", input.MaxQuoted), strings.Repeat("🦆", 99)} {
		got, cut := strings.CutSuffix(input.Shortened(s), "…")
		if !cut || !utf8.ValidString(got) || !strings.HasPrefix(s, got) || len(got) > input.MaxQuoted || len(got) <= input.MaxQuoted-utf8.UTFMax {
			t.Errorf("%q became %q", s, got)
		}
	}
}
