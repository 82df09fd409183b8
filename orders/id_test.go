package orders

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestIDKeepsWhatItIsMadeOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.Int64Range(idEpoch, idEpoch+idUnit<<35-1).Draw(t, "at")
		item := rapid.IntRange(1, 1<<24-1).Draw(t, "item")
		key := IDKey{Key: rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key")}
		id := key.New(time.UnixMilli(at), item)
		if id.Item() != item || time.UnixMilli(at).Sub(id.Time()).Abs() >= idUnit*time.Millisecond || id.Time().UnixMilli() > at {
			t.Fatalf("%s: item %d of %d, time %d of %d", id, id.Item(), item, id.Time().UnixMilli(), at)
		}
		again, err := ParseID(strings.ToUpper(id.String()))
		if err != nil || again != id {
			t.Fatalf("%s is read as %s, %v", id, again, err)
		}
		if other := key.New(time.UnixMilli(at), item); other == id {
			t.Fatalf("%s twice", id)
		}
		if !key.Issued(id) {
			t.Fatalf("%s is not issued", id)
		}
	})
}

// TestAMadeUpIDIsNotIssued: an id with any bit changed, or of another installation, is not issued, except for one of 16,384.
func TestAMadeUpIDIsNotIssued(t *testing.T) {
	key, other := IDKey{Key: []byte("one installation")}, IDKey{Key: []byte("another")}
	id := key.New(time.Now(), 7)
	lucky := 0
	for bit := range 128 {
		forged := id
		forged[bit/8] ^= 1 << (bit % 8)
		if key.Issued(forged) {
			lucky++
		}
	}
	const tries = 100_000
	for range tries {
		if key.Issued(other.New(time.Now(), 7)) {
			lucky++
		}
	}
	if lucky > 40 { // 6 are expected; more than 40 occur once in 10^19 runs
		t.Errorf("%d of %d are as if they had been issued", lucky, tries)
	}
}

func FuzzParseID(f *testing.F) {
	for _, s := range []string{"", "01a1fbda-8d06-8000-8005-cdb33dafed12", "{01a1fbda-8d06-8000-8005-cdb33dafed12}", "urn:uuid:01a1fbda-8d06-8000-8005-cdb33dafed12", "01a1fbda8d0680008005cdb33dafed12"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := ParseID(s); err == nil && id.String() != strings.ToLower(s) {
			t.Errorf("%q is read as %s", s, id)
		}
	})
}
