package sqldb

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// A dialect translates statements and their arguments. It is safe for concurrent use.
type dialect struct {
	sqlite bool
	words  []string // pairs of a word and its text; the first one of a word counts
	texts  sync.Map // statement → text
}

var (
	postgres = &dialect{words: []string{
		"{now}", "now()",
		"{now ms}", "(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
		"{lock}", "FOR UPDATE", "{share}", "FOR SHARE", "{unlocked}", "FOR UPDATE SKIP LOCKED",
	}}
	sqlite = &dialect{sqlite: true, words: []string{
		"{now}", milliseconds, "{now ms}", milliseconds,
		"{lock}", "", "{share}", "", "{unlocked}", "", // there is one writer
	}}
)

const milliseconds = "CAST(unixepoch('subsec') * 1000 AS INTEGER)"

// with returns a dialect with further words, or other texts for some.
func (d *dialect) with(words []string) *dialect {
	return &dialect{sqlite: d.sqlite, words: append(words[:len(words):len(words)], d.words...)}
}

var (
	applied = regexp.MustCompile(`\{(in|rows|ms|text) ([^:}]+)(?:: ([^}]*))?\}`)
	unknown = regexp.MustCompile(`\{[a-z][^}]*\}`)
	columns = regexp.MustCompile(`(\w+) \w+`)
)

// text translates a statement. It panics if that has a word that is not known.
func (d *dialect) text(statement string) string {
	if text, ok := d.texts.Load(statement); ok {
		return text.(string)
	}
	text := strings.NewReplacer(d.words...).Replace(statement)
	text = applied.ReplaceAllStringFunc(text, func(word string) string {
		m := applied.FindStringSubmatch(word)
		return d.apply(m[1], m[2], m[3])
	})
	if d.sqlite {
		text = strings.ReplaceAll(text, "$", "?")
	}
	if word := unknown.FindString(text); word != "" {
		panic(fmt.Sprintf("sqldb: %s in %s", word, statement))
	}
	d.texts.Store(statement, text)
	return text
}

func (d *dialect) apply(word, to, list string) string {
	switch {
	case word == "in" && d.sqlite:
		return "IN (SELECT value FROM json_each(" + to + "))"
	case word == "in":
		return "= ANY (" + to + ")"
	case word == "rows" && d.sqlite:
		return "(SELECT " + columns.ReplaceAllString(list, "value ->> '$1' AS $1") + " FROM json_each(" + to + ")) AS j"
	case word == "rows":
		return "json_to_recordset(" + to + "::json) AS j (" + list + ")"
	case d.sqlite: // ms, text
		return to
	case word == "ms":
		return "(" + to + " * interval '1 millisecond')"
	default:
		return to + `::text COLLATE "C"`
	}
}

// args returns the arguments as the driver takes them.
func (d *dialect) args(args []any) []any {
	args = slices.Clone(args)
	for i, arg := range args {
		switch v := arg.(type) {
		case time.Duration:
			args[i] = v.Milliseconds()
		case time.Time:
			if d.sqlite {
				args[i] = v.UnixMilli()
			}
		case [16]byte:
			if d.sqlite {
				args[i] = uuidText(v)
			}
		case [][16]byte:
			if d.sqlite {
				texts := make([]string, len(v))
				for j := range v {
					texts[j] = uuidText(v[j])
				}
				args[i] = JSON(texts)
			}
		case []string, []int, []int64:
			if d.sqlite {
				args[i] = JSON(v)
			}
		}
	}
	return args
}

func uuidText(id [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// JSON returns a list for {rows $1}, or for a column. It must be possible to encode it.
func JSON(list any) string {
	text, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	return string(text)
}
