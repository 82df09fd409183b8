package rulesfile_test

import (
	"testing"

	"github.com/tidegate/tidegate/internal/rulesfile"
)

// What a tree is encoded to decodes to the same tree.
func TestEncodedTrees(t *testing.T) {
	at := rulesfile.At{}
	texts := []string{
		"a", "a b", "true", "Yes", "no", "null", "~", "1", "-1", "1.5", "1e3", "0x10", "007", ".5", "10s", "1h0m0s", "2ms", "1.5.s", "/v1/**", "a: b", "# a", "a #b",
		"[a]", "{a}", "*a", "&a", "!a", "<<", "- a", "", " a", "ü", "\u2028", "\"", "'", "\\", "a\nb", "\t", "12:30", "2001:db8::1", "10.0.0.0/8", "=", "y", "unlimited",
	}
	nodes := []*rulesfile.Node{at.Texts(texts...), at.Int(-7), at.Float(0.25), at.Float(3), at.Bool(true), at.Mapping(), at.List(at.List(), at.Nothing())}
	for _, text := range texts {
		nodes = append(nodes, at.Mapping(at.Pair("key", at.Text(text)), at.Pair("x"+text, at.Int(1))))
	}
	for _, n := range nodes {
		again, err := rulesfile.Parse("test.yaml", []byte("- "+n.Flow()+"\n"))
		if err != nil {
			t.Errorf("%s: %v", n.Flow(), err)
			continue
		}
		if got := again.Flow(); got != "["+n.Flow()+"]" {
			t.Errorf("%s was read as %s", n.Flow(), got)
		}
	}
	for _, text := range texts[1:] {
		n, err := rulesfile.Parse("test.yaml", []byte(at.Text(text).Flow()))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got, err := n.Text("it"); got != text && text != "" {
			t.Errorf("%q was read as %q, %v", text, got, err)
		}
	}
}
