package migrations

import (
	"database/sql"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tidegate/tidegate/internal/testenv"
)

// How the statements of a release are recorded: testdata/README.md.
var (
	recorded = flag.String("statements", "", "log of Postgres from which testdata/statements.sql is written")
	released = flag.String("release", "", "folder with the sources of the release whose tests wrote that log")
)

const (
	statementsFile = "testdata/statements.sql"
	between        = ";\n\n"
)

// TestTheLastReleaseRunsOnThisSchema prepares every statement of the last release: its processes run until the upgrade is over, and
// again after a way back. A migration that fails here has to wait for the next release, whose predecessor no longer needs what it
// removes.
func TestTheLastReleaseRunsOnThisSchema(t *testing.T) {
	t.Parallel()
	if *recorded != "" {
		record(t)
	}
	text, err := os.ReadFile(statementsFile)
	if err != nil {
		t.Fatal(err)
	}
	statements := strings.Split(strings.TrimSpace(string(text)), between)
	if len(statements) < 50 {
		t.Fatalf("%d statements, want those of a whole release", len(statements))
	}
	db := open(t, "pgx", testenv.Postgres(t))
	if err := Postgres(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	for i, statement := range statements {
		if _, err := db.ExecContext(t.Context(), "PREPARE old_"+strconv.Itoa(i)+" AS "+statement); err != nil {
			t.Errorf("%v\n%s", err, statement)
		}
		if into := inserts.FindStringSubmatch(statement); into != nil {
			checkInsert(t, db, into[1], into[2])
		}
	}
}

// inserts finds the table and the columns of an INSERT, also in a WITH.
var inserts = regexp.MustCompile(`INSERT INTO (\w+) \(([^)]*)\)`)

// checkInsert looks for columns that an INSERT must give and does not: PREPARE accepts that.
func checkInsert(t *testing.T, db *sql.DB, table, columns string) {
	t.Helper()
	var missing []string
	if err := db.QueryRowContext(t.Context(), `
		SELECT coalesce(array_agg(column_name::text), '{}') FROM information_schema.columns
		WHERE table_schema = 'public' AND table_name = $1 AND column_name <> ALL($2)
		AND is_nullable = 'NO' AND column_default IS NULL AND is_identity = 'NO' AND is_generated = 'NEVER'`,
		table, strings.Split(columns, ", ")).Scan(pgtype.NewMap().SQLScanner(&missing)); err != nil {
		t.Fatal(err)
	}
	if len(missing) > 0 {
		t.Errorf("table %s requires %v, which the last release does not insert", table, missing)
	}
}

var (
	logged   = regexp.MustCompile(`(?s)^LOG:  (?:execute [^:]*|statement): (.*)`)
	noted    = regexp.MustCompile(`--[^\n]*`)
	preparer = regexp.MustCompile(`^(SELECT|INSERT|UPDATE|DELETE|WITH)\b`)
)

// record writes the statements of a log that also stand in the sources of the release: others are of its tests.
func record(t *testing.T) {
	log, err := os.ReadFile(*recorded)
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	if err := filepath.WalkDir(*released, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		sources.WriteString(words(string(source)))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var list []string
	for entry := range strings.SplitSeq(string(log), "\n@@") { // log_line_prefix
		_, entry, _ = strings.Cut(entry, " ")
		match := logged.FindStringSubmatch(entry)
		if match == nil || !preparer.MatchString(words(match[1])) {
			continue
		}
		// Some are joined from parts when they run: the beginning identifies them.
		begin := words(match[1])
		if strings.Contains(sources.String(), begin[:min(len(begin), 40)]) {
			list = append(list, words(noted.ReplaceAllString(match[1], "")))
		}
	}
	slices.Sort(list)
	if err := os.WriteFile(statementsFile, []byte(strings.Join(slices.Compact(list), between)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func words(text string) string { return strings.Join(strings.Fields(text), " ") }
