package koala_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/dialects/koala"
)

// What other keyboards write for a sign of rules, and what cannot be seen, is refused with its place and what should stand there. In quotes each
// is part of a value.
func TestSignsOfOtherKeyboards(t *testing.T) {
	for _, test := range []struct{ condition, sign, instead string }{
		{"act=ask；uid=+", "U+FF1B '；'", ";"},
		{"act=ask，answer", "U+FF0C '，'", ","},
		{"act=ask、answer", "U+3001 '、'", ","},
		{"act=ask｛~｝", "U+FF5B '｛'", "{"},
		{"act=ask{～}", "U+FF5E '～'", "~"},
		{"act＝ask", "U+FF1D '＝'", "="},
		{"act！=ask", "U+FF01 '！'", "!"},
		{"uid=＋", "U+FF0B '＋'", "+"},
		{"uid＞5", "U+FF1E '＞'", ">"},
		{"uid＜5", "U+FF1C '＜'", "<"},
		{"uid＠none", "U+FF20 '＠'", "@"},
		{"uid=1－5", "U+FF0D '－'", "-"},
		{"uid=1–5", "U+2013 '–'", "-"},
		{"uid=1—5", "U+2014 '—'", "-"},
		{"uid=1−5", "U+2212 '−'", "-"},
		{"uid=１-５", "U+FF11 '１'", "1"},
		{"uid=９", "U+FF19 '９'", "9"},
		{"uip=10。0。0。1", "U+3002 '。'", "."},
		{"uip=10．0.0.1", "U+FF0E '．'", "."},
		{"uip=10.0.0.＊", "U+FF0A '＊'", "*"},
		{"uip=10.0.0.0／8", "U+FF0F '／'", "/"},
		{"uip=fd00：：/8", "U+FF1A '：'", ":"},
		{"act=“ask”", "U+201C '“'", `"`},
		{"act=‘ask’", "U+2018 '‘'", `"`},
		{"act=＂ask＂", "U+FF02 '＂'", `"`},
		{"act=ask］", "U+FF3D '］'", "]"},
		{"act=ask】", "U+3011 '】'", "]"},
		{"【act=ask", "U+3010 '【'", "["},
		{"act=ask\u3000", "U+3000", "a space"},
		{"act=\u3000ask", "U+3000", "a space"},
		{"act=ask\u00a0", "U+00A0", "a space"},
		{"act=ask\u2009", "U+2009", "a space"},
		{"act=ask\u200b", "U+200B", "left out"},
		{"act=as\u200ek", "U+200E", "left out"},
		{"act=as\u00adk", "U+00AD", "left out"},
		{"act=\u2060ask", "U+2060", "left out"},
	} {
		t.Run(test.condition, func(t *testing.T) {
			rule := "rule : [count] [" + test.condition + "] [time=1; count=1] [result=2; return=1]"
			path := writeFiles(t, map[string]string{"koala.conf": "[dicts]\n[rules]\n" + rule + shippedResults})
			_, _, err := openFile(path)
			var sign rune
			if _, err := fmt.Sscanf(test.sign, "U+%X", &sign); err != nil {
				t.Fatal(err)
			}
			before, _, _ := strings.Cut(rule, string(sign))
			wantWrong(t, err, path, 3, 1+len([]rune(before)), test.sign+" must be "+test.instead+" unless it is in quotes", rule)

			value := "a" + string(sign)
			s := serveRules(t, `rule : [direct] [act="`+value+`"] [] [result=2; return=9]`, nil)
			if code := browse(t, s, koala.Params{"act": value}, false); code != 9 {
				t.Errorf("in quotes it does not fit: %d", code)
			}
		})
	}
}

// Words of every language are words as they stand; so are full-width letters, which no sign is made of.
func TestWordsOfEveryLanguage(t *testing.T) {
	for _, word := range []string{"提问", "回答-评论", "アクション", "질문", "naïve", "Straße", "ａｓｋ", "ν", "🐨", "¥5", "阿·凡提", "《三体》"} {
		s := serveRules(t, "rule : [direct] [act="+word+"; uid @ words] [] [result=2; return=9]", map[string]string{"words": word + "\n"})
		if code := browse(t, s, koala.Params{"act": word, "uid": word}, false); code != 9 {
			t.Errorf("%s does not fit: %d", word, code)
		}
	}
}

// Such a sign is refused wherever rules, sections, results and names of dicts are written; comments and the names of files may have any.
func TestSignsInOtherPlaces(t *testing.T) {
	const rule = "rule : [direct] [act=ask] [] [result=2; return=1]"
	for name, test := range map[string]struct {
		dict, section, rule, result string
		line, column                int // 0 if it is right
		problem                     string
	}{
		"a rule":    {rule: strings.Replace(rule, ":", "：", 1), line: 4, column: 6, problem: "U+FF1A '：' must be : unless it is in quotes"},
		"a result":  {result: "2：{\"Ret_type\":2}", line: 6, column: 2, problem: "U+FF1A '：' must be : unless it is in quotes"},
		"a section": {section: "［rules]", line: 3, column: 1, problem: "U+FF3B '［' must be [ unless it is in quotes"},
		"its end":   {section: "[rules]\u3000", line: 3, column: 8, problem: "U+3000 must be a space unless it is in quotes"},
		"a dict":    {dict: "d：黑名单（新）.dat", line: 2, column: 2, problem: "U+FF1A '：' must be : unless it is in quotes"},
		"right":     {dict: "d : 黑名单（新）.dat", rule: "# 每天五次，一人\n" + rule, result: `2 : {"Ret_type":2, "Str_reason":"太快了，请稍后"}`},
	} {
		t.Run(name, func(t *testing.T) {
			or := func(text, usual string) string {
				if text != "" {
					return text
				}
				return usual
			}
			file := "[dicts]\n" + or(test.dict, "#") + "\n" + or(test.section, "[rules]") + "\n" + or(test.rule, rule) + "\n[result]\n" + or(test.result, `2 : {"Ret_type":2}`)
			path := writeFiles(t, map[string]string{"koala.conf": file, "黑名单（新）.dat": ""})
			_, _, err := openFile(path)
			if test.line == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			wantWrong(t, err, path, test.line, test.column, test.problem, strings.Split(file, "\n")[test.line-1])
		})
	}
}

// A dict has no quotes, so its signs stay; the first that looks like another is named.
func TestDictWithSignsOfOtherKeyboards(t *testing.T) {
	path := writeFiles(t, map[string]string{
		"koala.conf": "[dicts]\nbad : bad.dat\n[rules]\nrule : [direct] [uid @ bad] [] [result=2; return=1]\n" + shippedResults,
		"bad.dat":    "\ufeff7\n\u30008\u00a0\n提问\n１０\n“a”\n",
	})
	if got := warningsOf(t, path); len(got) != 1 || got[0] != `bad.dat:4: "１０" has U+FF11 '１', and fits only what has it too; else it should be 1` {
		t.Errorf("%q", got)
	}
	s, _, err := openFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[string]int{"7": 1, "8": 1, "提问": 1, "１０": 1, "“a”": 1, "10": 0, "a": 0} {
		if got := browse(t, s, koala.Params{"uid": uid}, false); got != want {
			t.Errorf("uid %s: %d, want %d", uid, got, want)
		}
	}
}
