package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The items of a file are added or changed, and everything else stays: the other items, and what lines leave out.
func TestImportItems(t *testing.T) {
	const put = `PUT /v1/sales/flash {"starts_at":"2030-01-01T12:00:00Z","ends_at":"2030-01-01T13:00:00Z","requires_user":false,"hold_ms":90000,"items":[` +
		`{"item":"shoe","stock":120,"quota_per_buyer":3,"in_flight_max":7},{"item":"hat","stock":5,"quota_per_buyer":1,"in_flight_max":10000},` +
		`{"item":"sock","stock":9,"quota_per_buyer":2},{"item":"belt","stock":1,"final":true}],"revision":7}`
	for name, text := range map[string]string{
		"CSV":                  "item,stock,quota_per_buyer,final\nshoe,120,,\nhat,5,1,\nsock,9,2,\nbelt,1,,true\n",
		"CSV of a spreadsheet": "\xef\xbb\xbffinal;stock;item;quota_per_buyer\r\n;120;shoe;\r\n;5;hat;1\r\nfalse; 9;sock;2\r\nTRUE;1;belt;\r\n",
		"NDJSON":               "{\"item\":\"shoe\",\"stock\":120}\n\n{\"item\":\"hat\",\"stock\":5}\n{\"item\":\"sock\",\"stock\":9,\"quota_per_buyer\":2}\n{\"stock\":1,\"item\":\"belt\",\"final\":true}",
	} {
		env, asked := internalFake(t, map[string]string{"GET /v1/sales?limit=1000": twoSales, "PUT /v1/sales/flash": operatorsView})
		file := filepath.Join(t.TempDir(), "items")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := call(t, env, "sales", "import", "flash", file)
		if err != nil || out != "flash: 2 items added, 1 changed, 1 as they were\n" || len(*asked) != 2 || (*asked)[1] != put {
			t.Errorf("%s: %v, %q\n%s\nwant\n%s", name, err, out, strings.Join(*asked, "\n"), put)
		}
	}
}

// A file with wrong lines is refused with all of them, before anything is sent.
func TestImportNoWrongItems(t *testing.T) {
	env, asked := internalFake(t, map[string]string{"GET /v1/sales?limit=1000": twoSales, "PUT /v1/sales/flash": operatorsView})
	var many strings.Builder
	many.WriteString("item,stock\n")
	for i := range 25 {
		fmt.Fprintf(&many, "shoe-%d,none\n", i)
	}
	for text, want := range map[string][]string{
		"":                                    {"the first line must name the columns"},
		"item,stock\n":                        {"there are no items"},
		"shoe,5\n":                            {"the first line must name the columns"},
		"item,stock,colour\nshoe,5,red\n":     {`line 1: column "colour" must be one of item, stock,`},
		"item,stock,stock\nshoe,5,5\n":        {`line 1: column "stock"`},
		"item,stock\nshoe,5\n{},6\nhat,-1\n":  {"line 3: item must be 1 to 64 letters", "line 4: stock is -1, and must be from 0 to 10000000"},
		"item,stock\nshoe,5,6\nhat\nbelt,\n":  {"line 2: there are 3 cells, and 2 columns", "line 3: there are 1 cells", "line 4: stock is missing"},
		"item,stock\nshoe,5\nhat,5\nshoe,6\n": {`line 4: item "shoe" is on line 2, too`},
		"item,stock,quota_per_buyer,final\na,1,0,\nb,1,1001,\nc,1,,maybe\n": {
			"line 2: quota_per_buyer and in_flight_max must be 1 or more", "line 3: quota_per_buyer is 1001, and must be from 1 to 1000", `line 4: final must be true or false, got "maybe"`,
		},
		"item,stock\n\"shoe,5\n":                      {"parse error"},
		`{"item":"shoe","stock":1.5}`:                 {"line 1: must be one object with the fields item, stock,"},
		`{"item":"shoe","stock":1,"colour":"red"}`:    {"line 1: ", "colour"},
		`{"item":"shoe","stock":1}{"item":"hat"}`:     {"line 1: must be one object"},
		"{\"item\":\"shoe\",\"stock\":1}\n{\"item\":": {"line 2: "},
		`{"item":"shoe","stock":1}}{"item":"hat"}`:    {"line 1: must be one object"},
		`{"item":"shoe","stock":1,"stock":100}`:       {"line 1: ", "stock"},
		`{"item":"shoe","STOCK":1}`:                   {"line 1: ", `"STOCK" is unknown`},
		`5` + "\n":                                    {"the first line must name the columns"},
		"{\"item\":\"shoe\",\"stock\":1}\n5":          {"line 2: ", "it is none"},
		`[{"item":"shoe","stock":1}]`:                 {"an object per line"},
		many.String():                                 {`line 2: stock must be a whole number, got "none"`, "line 6: ", "and 15 more"},
	} {
		file := filepath.Join(t.TempDir(), "items")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := call(t, env, "sales", "import", "flash", file)
		if err == nil || out != "" || len(*asked) != 0 {
			t.Fatalf("%q: %v, %q, %v", text, err, out, *asked)
		}
		for _, part := range append(want, file, "nothing was changed") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: %v\nlacks %q", text, err, part)
			}
		}
	}
}
