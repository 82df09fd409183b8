package serverversion

import (
	"os"
	"strings"
	"testing"
)

func TestServersNameThemselves(t *testing.T) {
	for _, c := range []struct {
		got, want Server
	}{
		{Redis("# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n"), Server{"Redis", "7.0.15"}},
		{Redis("# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n"), Server{"Valkey", "8.1.1"}},
		{Redis(""), Server{"Redis", ""}},
		{Postgres("15.20 (Debian 15.20-0+deb12u1)"), Server{"Postgres", "15.20"}},
		{Postgres("19beta1"), Server{"Postgres", "19beta1"}},
	} {
		if c.got != c.want {
			t.Errorf("got %v, want %v", c.got, c.want)
		}
	}
}

func TestAServerBelowTheLeastPatchedVersionOfItsLineLacksFixes(t *testing.T) {
	for server, want := range map[Server]bool{
		{"Redis", "7.2.16"}:     false,
		{"Redis", "7.2.9"}:      true, // 9 is below 16
		{"Redis", "7.0.15"}:     true, // no release of the line has the fix
		{"Redis", "8.10.1"}:     false,
		{"Redis", "8.1.0"}:      false, // no such line, and not 8.10
		{"Valkey", "7.2.16"}:    false,
		{"Valkey", "8.1.1"}:     true,
		{"Valkey", "9.1.2"}:     false,
		{"Postgres", "15.19"}:   true,
		{"Postgres", "15.20"}:   false,
		{"Postgres", "19beta1"}: false, // newer than the table
		{"Redis", ""}:           false,
	} {
		if got := server.Lacks(); got != want {
			t.Errorf("%v lacks fixes: %v, want %v", server, got, want)
		}
	}
}

// TestLinesAreDocumented, each in a row of its own.
func TestLinesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range Lines {
		least := l.Least
		if least == "" {
			least = "none: always a warning"
		}
		row := "| " + l.Name + " " + l.Line + " | " + least + " | "
		_, after, found := strings.Cut(string(text), row)
		if reason, _, _ := strings.Cut(after, "\n"); !found || !strings.Contains(reason, l.Fixes) {
			t.Errorf("docs/operations.md has no row %q with %s", row, l.Fixes)
		}
	}
}
