package koala

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidegate/tidegate/admission/rules"
)

// blanks are the whitespace that may surround every part.
const blanks = " \t\v\r"

// A line is a line of a file, with its position.
type line struct {
	file   string
	number int // from 1
	text   string
	secret bool // it may contain a password, and is not shown in errors
}

// A part is a part of a line, from byte at on.
type part struct {
	line *line
	text string
	at   int
}

// linesOf splits a file into lines, and rejects what is not text.
func linesOf(file string, src []byte, secret bool) ([]*line, error) {
	var lines []*line
	for i, text := range strings.Split(strings.TrimPrefix(string(src), "\ufeff"), "\n") {
		l := &line{file: file, number: i + 1, text: text, secret: secret}
		p := l.whole()
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return nil, p.wrong("the line must be UTF-8")
		}
		if i := strings.IndexFunc(p.text, breaks); i >= 0 {
			return nil, p.from(i).wrong("the line has an invisible character that some programs read as its end; lines must end with a line feed")
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// breaks reports whether r ends a line in YAML or in an editor, or is another control character other than a blank. A comment with one
// could end early in the generated rules file.
func breaks(r rune) bool {
	return unicode.IsControl(r) && !strings.ContainsRune(blanks, r) || r == '\r' || r == '\u2028' || r == '\u2029' || r == '\ufeff'
}

func (l *line) whole() part { return part{line: l, text: l.text}.trimmed() }

// empty reports whether l is blank or a comment.
func (l *line) empty() bool {
	text := l.whole().text
	return text == "" || text[0] == '#'
}

// wrong returns an error about p, with its position and line.
func (p part) wrong(format string, args ...any) error {
	const most = 200
	e := &rules.Error{
		File: p.line.file, Line: p.line.number, Column: 1 + utf8.RuneCountInString(p.line.text[:p.at]), Problem: fmt.Sprintf(format, args...),
	}
	if p.line.secret {
		return e
	}
	text := strings.Trim(p.line.text, blanks)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	e.Problem += fmt.Sprintf("; the line is %q", text)
	return e
}

// named adds p, which names a file, to err, and a hint if a comment seems to be part of the name.
func (p part) named(err error) error {
	if strings.Contains(p.text, " #") {
		return fmt.Errorf("%w; a comment needs a line of its own: what follows this # is part of the name", err)
	}
	return err
}

// from returns p without its first n bytes.
func (p part) from(n int) part { return part{p.line, p.text[n:], p.at + n} }

func (p part) to(n int) part { return part{p.line, p.text[:n], p.at} }

func (p part) trimmed() part {
	p = p.from(len(p.text) - len(strings.TrimLeft(p.text, blanks)))
	return p.to(len(strings.TrimRight(p.text, blanks)))
}

// cut is strings.Cut, with both sides trimmed.
func (p part) cut(sep string) (before, after part, found bool) {
	i := strings.Index(p.text, sep)
	if i < 0 {
		return p.trimmed(), p.from(len(p.text)), false
	}
	return p.to(i).trimmed(), p.from(i + len(sep)).trimmed(), true
}

// closing returns the index of the closing quote for the one at p's first byte, or -1.
func (p part) closing() int {
	for i := 1; i < len(p.text); i++ {
		switch p.text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// index returns the first index outside quotes where ends returns true, or -1.
func (p part) index(ends func(i int) bool) (int, error) {
	for i := 0; i < len(p.text); i++ {
		if p.text[i] == '"' {
			n := p.from(i).closing()
			if n < 0 {
				return 0, p.from(i).wrong("the closing quote is missing")
			}
			i += n
		} else if ends(i) {
			return i, nil
		}
	}
	return -1, nil
}

// split splits p at each sep outside quotes. An empty last part is dropped.
func (p part) split(sep byte) (parts []part, err error) {
	for {
		i, err := p.index(func(i int) bool { return p.text[i] == sep })
		if err != nil {
			return nil, err
		}
		if i < 0 {
			break
		}
		parts = append(parts, p.to(i).trimmed())
		p = p.from(i + 1)
	}
	if p = p.trimmed(); p.text != "" || len(parts) == 0 {
		parts = append(parts, p)
	}
	return parts, nil
}

// brackets returns the content of the bracketed group at the beginning of p, such as [count], and the rest. A closing bracket only counts
// if another group or the end of the line follows, because values may contain brackets.
func (p part) brackets() (inside, rest part, err error) {
	if p = p.trimmed(); !strings.HasPrefix(p.text, "[") {
		return p, p, p.wrong("a group in brackets is required, as in rule : [count] [act=ask; uid=+] [time=60; count=5] [result=2; return=201]")
	}
	p = p.from(1)
	i, err := p.index(func(i int) bool {
		if p.text[i] != ']' {
			return false
		}
		next := p.from(i + 1).trimmed().text
		return next == "" || next[0] == '['
	})
	switch {
	case err != nil:
		return p, p, err
	case i < 0:
		return p, p, p.wrong("the closing bracket is missing")
	}
	return p.to(i).trimmed(), p.from(i + 1).trimmed(), nil
}

// unquoted returns the text of p; quoted reports whether it was in quotes, which are JSON strings.
func (p part) unquoted() (text string, quoted bool, err error) {
	if !strings.HasPrefix(p.text, `"`) {
		return p.text, false, nil
	}
	if err := json.Unmarshal([]byte(p.text), &text); err != nil {
		return "", true, p.wrong(`a value in quotes must be like "a;b" or "say \"hi\""`)
	}
	if strings.ContainsRune(text, utf8.RuneError) { // also the result of decoding an incomplete character
		return "", true, p.wrong(`the value has half a character, such as "\ud800", or the sign for one that was lost`)
	}
	return text, true, nil
}
