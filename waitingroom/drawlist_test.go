package waitingroom_test

import (
	"os"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/waitingroom"
)

// Whatever is changed in a list, VerifyDraw says what is wrong.
func TestVerifyDrawSaysWhatIsWrong(t *testing.T) {
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
		"seed":        {"seed,8b", "seed,8c", "the list says"},
		"n":           {"n,5", "n,-5", "n must be a number"},
		"fewer":       {"n,5", "n,4", "the list has 5 places, and n is 4"},
		"more":        {"n,5", "n,6", "the list has 5 places, and n is 6"},
		"no field":    {"seed,", "sead,", `line must begin with "seed,"`},
		"position":    {",3\n1,", ",4\n1,", "at position 3, and the list says 4"},
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
		if _, err := waitingroom.VerifyDraw(strings.NewReader(changed)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", what, err, tt.want)
		}
	}
}
