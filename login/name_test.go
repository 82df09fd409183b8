package login_test

import (
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/login"
)

// Too little is a bypass (rack-attack #493, CVE-2025-6004 of Vault and OpenBao).
func TestWritingsOfANameAreOne(t *testing.T) {
	for _, same := range [][]string{
		{"alice", "Alice", "ALICE", " alice", "alice  ", "\u3000alice", "alice\u00a0", "ａｌｉｃｅ", "ａｌｉｃｅ ", "𝐚𝐥𝐢𝐜𝐞", "ⓐlice"},
		{"alice@shop.example", "Alice@Shop.Example", "alice\u200b@shop.example", "\ufeffalice@shop.example", "al\u00adice@shop.example", "alice@shop\u2060.example", "alice＠shop.example"},
		{"ali\u200ece", "alice", "\u202ealice", "alice\ufe0f", "a\u034flice", "alice\U000e0041"},
		{"rené", "rene\u0301", "RENÉ", "rene\u200b\u0301", "rene\u034f\u0301", "RENE\u0301"},
		{"ﬁona", "fiona"}, // a ligature
		{"σίσυφος", "ΣΊΣΥΦΟΣ"},
		{"\u13c0\u13a3", "\uab90\uab73"},           // great and small Cherokee
		{"straße", "STRASSE", "strasse", "STRAẞE"}, // the price: these may be two people, who then share what is counted
		{"\u212bngstr\u00f6m", "ångström"},
	} {
		for _, name := range same {
			if got, want := login.Normalize(name), login.Normalize(same[0]); got != want {
				t.Errorf("%+q is counted as %+q, %+q as %+q", name, got, same[0], want)
			}
		}
	}
}

// Too much makes one person pay for another's guessers (navidrome #6185).
func TestPeopleStayTwo(t *testing.T) {
	names := []string{"alice", "alice2", "a lice", "a.lice", "alice+x", "alicé", "аlice" /* Cyrillic а */, "al1ce", "alice@a.example", "alice@b.example", "аліса", "أليس", "艾丽斯", "ıris", "iris", "o'hara", "ohara", "-", "_"}
	seen := map[string]string{}
	for _, name := range names {
		n := login.Normalize(name)
		if other, ok := seen[n]; ok {
			t.Errorf("%+q and %+q are one", name, other)
		}
		seen[n] = name
	}
}

// Whatever a name looks like, its failures are those of one name.
func TestGuesserCannotWriteANameAnew(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, _ *clock) {
		th := throttle(t, store, rules.Default, login.Options{})
		for _, name := range []string{"alice@shop.example", " ALICE@shop.example ", "ａlice@shop\u200b.example"} {
			if d, _ := try(t, th, attempt(name, "192.0.2.1"), login.Failure); d.Action != login.Allow {
				t.Fatalf("%+q: %+v", name, d)
			}
		}
		if d, err := th.Check(t.Context(), attempt("alice@shop.example", "192.0.2.2")); err != nil || d.Action != login.Challenge {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// A ban of a user applies to every spelling of the name, and to the spelling that was banned, however names are normalized.
func TestBannedUserCannotWriteTheNameAnew(t *testing.T) {
	b := newBans(newClock())
	for _, name := range []string{"ann", "Bob"} {
		if _, err := b.Ban(t.Context(), bans.Order{Target: bans.Target{Kind: bans.User, Value: name}, For: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	th := throttle(t, memoryStore(b.clock), rules.Default, login.Options{Bans: b})
	for name, want := range map[string]login.Action{"ann": login.Deny, "Ann ": login.Deny, "Bob": login.Deny, "anna": login.Allow} {
		d, err := th.Reserve(t.Context(), attempt(name, "192.0.2.1"))
		if err != nil || d.Action != want || (want == login.Deny) != (d.Reason == login.ReasonBanned) {
			t.Errorf("%q: %+v, %v", name, d, err)
		}
	}
}

func TestNormalizeIsTheCallers(t *testing.T) {
	th := throttle(t, memoryStore(newClock()), rules.Default, login.Options{Normalize: func(name string) string { return name }})
	for range 3 {
		try(t, th, attempt("Alice", "192.0.2.1"), login.Failure)
	}
	if d, err := th.Check(t.Context(), attempt("alice", "192.0.2.2")); err != nil || d.Action != login.Allow {
		t.Errorf("alice: %+v, %v", d, err)
	}
	if d, err := th.Check(t.Context(), attempt("Alice", "192.0.2.2")); err != nil || d.Action != login.Challenge {
		t.Errorf("Alice: %+v, %v", d, err)
	}
}

func FuzzNormalize(f *testing.F) {
	for _, s := range []string{"alice", "e\u200b\u0301", "\uffa0x", "ﷺ", "İ", "\u0345\u0301", "ᾳ\u0301", "\u1e9e", "ǰ\u0323", "\u3164"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if len(name) > 256 || !utf8.ValidString(name) {
			return
		}
		once := login.Normalize(name)
		if twice := login.Normalize(once); once != twice {
			t.Errorf("%+q becomes %+q, and that %+q", name, once, twice)
		}
	})
}
