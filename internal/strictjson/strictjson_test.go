package strictjson_test

import (
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/strictjson"
)

func TestBodies(t *testing.T) {
	const (
		null  = "must not be null"
		twice = "must be given once"
	)
	for body, want := range map[string]struct{ at, message string }{
		`{"a":1,"b":[1,2,{"c":"d"}],"e":{},"f":[]}`: {},
		`[]`:                                 {},
		`"a"`:                                {},
		`1`:                                  {},
		`{"a":{"a":{"a":1}},"b":{"a":1}}`:    {}, // the same key at other places
		`[{"a":1},{"a":2}]`:                  {},
		`null`:                               {"body", null},
		`{"a":null}`:                         {"body.a", null},
		`{"a":1,"b":{"c":null}}`:             {"body.b.c", null},
		`{"a":[1,null]}`:                     {"body.a[1]", null},
		`[[1],[2,[3,null]]]`:                 {"body[1][1][1]", null},
		`{"a":[{"b":1},{"b":2,"b":3}]}`:      {"body.a[1].b", twice},
		`{"a":1,"a":1}`:                      {"body.a", twice},
		`{"a":1,"\u0061":1}`:                 {"body.a", twice},
		`{"a":{"b":1},"c":[1],"a":2}`:        {"body.a", twice},
		`{"a":{"x":[0,{"y":1}]},"z":[null]}`: {"body.z[0]", null},
		`{"a":1,"A":1}`:                      {}, // another key
	} {
		var into any
		err := strictjson.Format.Unmarshal([]byte(body), &into)
		if want.at == "" {
			if err != nil {
				t.Errorf("%s: %v", body, err)
			}
			continue
		}
		if at, message, ok := strings.Cut(strings.ReplaceAll(errorText(err), strictjson.Separator, "|"), "|"); !ok || at != want.at || !strings.Contains(message, want.message) {
			t.Errorf("%s: %q, want %q at %q", body, errorText(err), want.message, want.at)
		}
	}
	for _, body := range []string{``, `{`, `{"a":1}}`, `{"a":1} {}`, `[1,]`, `{"a"}`, `nul`, `{a:1}`, "\xef\xbb\xbf{}"} {
		if err := strictjson.Format.Unmarshal([]byte(body), new(any)); err == nil {
			t.Errorf("%q is accepted", body)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestIntoAType: the second decoding of a body, into a type, checks its text and its types only: the first has found the rest.
func TestIntoAType(t *testing.T) {
	var into struct{ A int }
	if err := strictjson.Format.Unmarshal([]byte(`{"a":7}`), &into); err != nil || into.A != 7 {
		t.Errorf("%+v, %v", into, err)
	}
	if err := strictjson.Format.Unmarshal([]byte(`{"a":"x"}`), &into); err == nil {
		t.Error("a text is taken for a number")
	}
	if err := strictjson.Format.Unmarshal([]byte("{\"a\":7,\"b\":\"\xff\"}"), &into); err == nil {
		t.Error("a text that is not UTF-8")
	}
}

func TestCheckText(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "abc": "", "é日🦆": "", "\ufffd": "", `\n\"\\\/`: "", `\u0041`: "", `\ud83e\udd86`: "", `\uD83E\uDD86`: "", `\\ud800`: "", `\\\\ud800`: "",
		`\ud7ff\ue000`: "", `a\ud83e\udd86b`: "", `\`: "", `\u`: "", `\u12`: "", `\uxyz0`: "", // what the parser refuses
		"\xff": "byte 0", "ab\xff": "byte 2", "é\xff": "byte 2", "\xc0\xaf": "byte 0", "\xe0\x80\xaf": "byte 0", "\xed\xa0\x80": "byte 0", "\xf4\x90\x80\x80": "byte 0", "a\xc3": "byte 1",
		`\ud800`: `\ud800 at byte 0`, `ab\ud83e`: `\ud83e at byte 2`, `\udd86`: `\udd86 at byte 0`, `\udd86\ud83e`: `\udd86 at byte 0`,
		`\ud83ex\udd86`: `\ud83e at byte 0`, `\ud83e\u0041`: `\ud83e at byte 0`, `\ud83e\ud83e\udd86`: `\ud83e at byte 0`, `\\\ud800`: `\ud800 at byte 2`,
		`\ud83e\udd86\ud83e`: `\ud83e at byte 12`, `\n\udbff`: `\udbff at byte 2`, `\u0041\udfff`: `\udfff at byte 6`,
		`\ud83e\udd8`: `\ud83e at byte 0`, "\\ud83e\\udd86\xff": "byte 12", "\\n\xff": "byte 2", "\\u0041\xff": "byte 6",
	} {
		got := errorText(strictjson.CheckText([]byte(text)))
		if want == "" && got != "" || want != "" && !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
