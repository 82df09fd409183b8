package draw_test

import (
	"fmt"
	"log"
	"os"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/waitingroom/draw"
)

// Whatever is changed in a list, Verify returns what is wrong.
func TestWrongLists(t *testing.T) {
	text, err := os.ReadFile("testdata/draw.csv")
	if err != nil {
		t.Fatal(err)
	}
	list := string(text)
	for what, tt := range map[string]struct{ from, to, want string }{
		"room":        {"room,shoes", "room,boots", "the places give the root"},
		"commitment":  {"commitment,d6", "commitment,d7", "and the commitment is"},
		"secret":      {"secret,90", "secret,91", "the secret has the SHA-256"},
		"no secret":   {"secret,90", "secret,x", "secret must be hexadecimal"},
		"root":        {"root,aa", "root,ab", "the seed must be"},
		"short root":  {"root,aa", "root,", "root must be 32 bytes"},
		"seed":        {"seed,8b", "seed,8c", "but the list has"},
		"n":           {"n,5", "n,-5", "n must be a number"},
		"fewer":       {"n,5", "n,4", "the list has 5 places, and n is 4"},
		"more":        {"n,5", "n,6", "the list has 5 places, and n is 6"},
		"no field":    {"seed,", "sead,", `line must begin with "seed,"`},
		"position":    {",3\n1,", ",4\n1,", "at position 3, but the list has 4"},
		"index":       {"\n1,nU", "\n2,nU", `index must be 1, got "2"`},
		"subject":     {"nU40", "nU41", "the places give the root"},
		"time":        {"679789,3", "679788,3", "the places give the root"},
		"no number":   {"679789,3", "679789,x", `position must be a number, got "x"`},
		"no columns":  {"joined_ms,position", "joined_ms", "the columns must be index,subject,joined_ms,position or index,subject,joined_ms,lane,position"},
		"lanes":       {"joined_ms,position", "joined_ms,lane,position", "line must be index,subject,joined_ms,lane,position"},
		"columns":     {",1795423679789,3", ",3", "line must be index,subject,joined_ms,position"},
		"a place cut": {"4,xU28vdH5MnnrYlYIiOphvQ,1795423679789,5\n", "", "the list has 4 places, and n is 5"},
	} {
		changed := strings.Replace(list, tt.from, tt.to, 1)
		if changed == list {
			t.Fatalf("%s: nothing was changed", what)
		}
		if _, err := draw.Verify(strings.NewReader(changed)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", what, err, tt.want)
		}
	}
}

// FuzzVerify: a list that passes is one that WriteDraw can have written: no other order, secret or length of it passes.
func FuzzVerify(f *testing.F) {
	list, err := os.ReadFile("testdata/draw.csv")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(list))
	f.Add(strings.Replace(string(list), "n,5", "n,9223372036854775807", 1))
	f.Add(strings.Replace(string(list), "n,5", "n,0", 1))
	f.Add(strings.Replace(string(list), "\n0,", "\n-1,", 1))
	f.Add("room,\ncommitment,\nsecret,\nroot,\nseed,\nn,\n\n,,,")
	f.Add("")
	f.Fuzz(func(t *testing.T, list string) {
		drawn, err := draw.Verify(strings.NewReader(list))
		if err != nil {
			return
		}
		lines := strings.Split(strings.TrimRight(list, "\n"), "\n")
		if drawn.N != int64(len(lines)-7) && len(lines) >= 7 {
			t.Errorf("%d places in %d lines", drawn.N, len(lines))
		}
		if drawn.N > 1 {
			lines[7], lines[8] = lines[8], lines[7]
			if _, err := draw.Verify(strings.NewReader(strings.Join(lines, "\n"))); err == nil {
				t.Error("the list passes with its first places swapped")
			}
		}
	})
}

// Anybody can check a draw with the list that the room has published.
func ExampleVerify() {
	list, err := os.Open("testdata/draw.csv")
	if err != nil {
		log.Fatal(err)
	}
	defer list.Close()
	drawn, err := draw.Verify(list)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(drawn.N, "places of", drawn.Room)
	fmt.Println("commitment", drawn.Commitment[:16])
	// Output:
	// 5 places of shoes
	// commitment d672ac483c95204d
}
