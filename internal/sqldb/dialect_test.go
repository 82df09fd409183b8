package sqldb

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ statement, postgres, sqlite string }{
		{"SELECT {now ms} - $1", "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint - $1", "SELECT " + milliseconds + " - ?1"},
		{"{now} + {ms $2}", "now() + ($2 * interval '1 millisecond')", milliseconds + " + ?2"},
		{"a {in $12}", "a = ANY ($12)", "a IN (SELECT value FROM json_each(?12))"},
		{
			"FROM {rows $3: seq bigint, lane text} WHERE true",
			"FROM json_to_recordset($3::json) AS j (seq bigint, lane text) WHERE true",
			"FROM (SELECT value ->> 'seq' AS seq, value ->> 'lane' AS lane FROM json_each(?3)) AS j WHERE true",
		},
		{"min({text order_id}) '{}'", `min(order_id::text COLLATE "C") '{}'`, "min(order_id) '{}'"},
		{"SELECT 1 {unlocked}", "SELECT 1 FOR UPDATE SKIP LOCKED", "SELECT 1 "},
		{"{own} {lock}", "$1 changed", "?1 changed"},
	} {
		words := []string{"{own}", "$1", "{lock}", "changed"}
		for range 2 { // the second time from memory
			pg, lite := postgres.with(words), sqlite.with(words)
			if got := pg.text(c.statement); got != c.postgres || lite.text(c.statement) != c.sqlite {
				t.Errorf("%s: %q and %q", c.statement, got, lite.text(c.statement))
			}
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("an unknown word was sent")
		}
	}()
	postgres.text("SELECT {own}")
}

func TestArguments(t *testing.T) {
	t.Parallel()
	id := [16]byte{1, 2, 15: 255}
	const text = "01020000-0000-0000-0000-0000000000ff"
	at := time.UnixMilli(1700000000123)
	args := []any{id, [][16]byte{id}, []string{"a"}, []int{1}, at, time.Minute, "b", nil}
	if diff := cmp.Diff([]any{text, `["` + text + `"]`, `["a"]`, `[1]`, at.UnixMilli(), int64(60_000), "b", nil}, sqlite.args(args)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]any{id, [][16]byte{id}, []string{"a"}, []int{1}, at, int64(60_000), "b", nil}, postgres.args(args)); diff != "" {
		t.Error(diff)
	}
	if _, ok := args[0].([16]byte); !ok {
		t.Error("the caller's arguments were changed")
	}
	var read [16]byte
	for text, ok := range map[string]bool{text: true, "01020000": false, "": false, "0102000g-0000-0000-0000-0000000000ff": false} {
		if err := (uuid{&read}).Scan(text); ok != (err == nil) || ok && read != id {
			t.Errorf("%q: %v, %v", text, read, err)
		}
	}
}
