package rules

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// drawTest draws a condition that is nested up to so deep.
func drawTest(rt *rapid.T, depth int, lists []*valueList) test {
	number := func(low int64) number {
		n := rapid.Int64Range(low, 4).Draw(rt, "number")
		return number{digits: true, whole: true, n: n, f: float64(n)}
	}
	several := func() (tests []test) {
		for range rapid.IntRange(1, 3).Draw(rt, "parts") {
			tests = append(tests, drawTest(rt, depth-1, lists))
		}
		return tests
	}
	kinds := 8
	if depth > 0 {
		kinds = 14
	}
	switch rapid.IntRange(0, kinds-1).Draw(rt, "kind") {
	case 0, 1:
		return words(rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "2", "3", "10.0.0.1"}), 1, 3, rapid.ID).Draw(rt, "words"))
	case 2:
		return present(rapid.Bool().Draw(rt, "present"))
	case 3:
		from := number(0)
		return numbers{from, number(from.n)}
	case 4:
		return above(number(0))
	case 5:
		return below(number(0))
	case 6:
		var t networks
		for _, text := range rapid.SliceOfN(rapid.SampledFrom([]string{"10.0.0.0/8", "10.0.0.0/31", "10.0.0.1/32", "11.0.0.0/8"}), 1, 2).Draw(rt, "networks") {
			t = append(t, netip.MustParsePrefix(text))
		}
		return t
	case 7:
		return rapid.SampledFrom(lists).Draw(rt, "list")
	case 8, 9, 10:
		return not{drawTest(rt, depth-1, lists)}
	case 11:
		return anyOf(several())
	default:
		return all(several())
	}
}

// The linter's statements about two conditions hold for every value.
func TestCoversAndExcludesAreSure(t *testing.T) {
	lists := []*valueList{newList("few"), newList("empty")}
	for _, value := range []string{"a", "3", "10.0.0.0/8"} {
		if err := lists[0].add(value, "few.txt", 1); err != "" {
			t.Fatal(err)
		}
	}
	covered, excluded := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		a, b := drawTest(rt, 3, lists), drawTest(rt, 3, lists)
		covers, excludes, needs := covers(a, b), excludes(a, b), needsValue(a)
		if covers {
			covered++
		}
		if excludes {
			excluded++
		}
		for _, text := range []string{"", "a", "b", "x", "0", "0.5", "1", "2", "2.5", "3", "4", "5", "10.0.0.1", "10.0.0.2", "11.0.0.1"} {
			for _, attribute := range []bool{false, true} {
				v := value{text: text, attribute: attribute}
				switch inA, inB := a.holds(v), b.holds(v); {
				case covers && inB && !inA:
					rt.Fatalf("%#v is said to cover %#v, and does not for %+v", a, b, v)
				case excludes && inA && inB:
					rt.Fatalf("%#v is said to exclude %#v, and does not for %+v", a, b, v)
				case needs && inA && text == "":
					rt.Fatalf("%#v is said to need a value, and does not", a)
				}
			}
		}
	})
	if covered == 0 || excluded == 0 {
		t.Errorf("%d cover, %d exclude", covered, excluded)
	}
}
