package koala

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// plain returns an error for characters outside quotes that resemble syntax, for invisible characters, and for a comment after other
// text. As part of a word each of them would make a rule that never matches.
func (p part) plain() error {
	i, err := p.index(func(i int) bool { return instead(p.from(i).sign()) != "" || p.remark(i) })
	if err != nil || i < 0 {
		return err
	}
	if p = p.from(i); p.text[0] == '#' {
		return p.wrong("a comment needs a line of its own; quote a word with a # after a space")
	}
	return p.wrong("%#U must be %s unless it is in quotes", p.sign(), instead(p.sign()))
}

func (p part) sign() rune {
	r, _ := utf8.DecodeRuneInString(p.text)
	return r
}

// remark reports whether byte i begins a comment after a section, a rule or a result.
func (p part) remark(i int) bool {
	if p.text[i] != '#' {
		return false
	}
	before := strings.TrimRight(p.text[:i], blanks)
	return len(before) < i && (strings.HasSuffix(before, "]") || strings.HasSuffix(before, "}"))
}

// instead returns the replacement for r, a character that keyboards and programs produce in place of syntax; "" if r is fine.
func instead(r rune) string {
	switch {
	case r < utf8.RuneSelf:
		return ""
	case unicode.Is(unicode.Cf, r):
		return "left out" // invisible
	case unicode.Is(unicode.Z, r):
		return "a space"
	case '！' <= r && r <= '～' && !unicode.IsLetter(r): // full-width ASCII
		return string(r - '！' + '!')
	case '‐' <= r && r <= '―', r == '−': // dashes and minus
		return "-"
	case '‘' <= r && r <= '‟': // curly quotes
		return `"`
	case r == '、':
		return ","
	case r == '。':
		return "."
	case r == '【':
		return "["
	case r == '】':
		return "]"
	}
	return ""
}
