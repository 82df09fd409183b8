package sqlstore

import (
	"database/sql"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// Postgres knows nothing of a new room, and would take it for one row: whatever it thinks, it must look up the places of a list, and read no others.
func TestLookUpsNeedNoStatistics(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("pgx", databases.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := Postgres(db)
	const bySubject = `Index Cond: \(subject = ANY`
	for query, want := range map[string]string{
		`SELECT seq FROM ` + ofSubjects:    bySubject,
		`SELECT seq FROM ` + ofNumbers:     `Index Cond: \(\(room = '?hall'?(::text)?\) AND \(seq >= `,
		`SELECT seq FROM ` + ofLaneNumbers: `Index Cond: \(\(room = '?hall'?(::text)?\) AND \(lane_seq >= .* AND \(lane = `,
		`UPDATE waiting_places SET left_at = 1 WHERE ` + current + ` AND subject {texts} AND seq {in $3}`:           bySubject,
		`UPDATE waiting_places SET turn_at = $2 FROM ` + turnRows + ` WHERE ` + ofTurns:                             bySubject,
		`UPDATE waiting_places SET barred = $3 WHERE ` + current + ` AND subject {texts}`:                           bySubject,
		`SELECT count(*) FROM ` + active("$2"):                                                                      `waiting_places_by_activity.*\n\s+Index Cond: \(\(room = .* AND \(active_rt > `,
		`SELECT seq FROM waiting_places WHERE room = $1 AND changed_at > 0 AND changed_at > $2 ORDER BY changed_at`: `waiting_places_by_change .*\n\s+Index Cond: \(\(room = .* AND \(changed_at > `,
		`UPDATE waiting_places SET lapsed_at = 1 WHERE ` + current + ` AND subject = $2 AND seq = $3`:               `Index Cond: \(subject = `,
	} {
		args := []any{"hall", `["1","2"]`, ""}
		switch n := strings.Count(query, "$3") + strings.Count(query, "{of lane"); {
		case strings.Contains(query, turnRows):
			args[1], args[2] = 1, `[{"subject":"1"}]`
		case strings.Contains(query, "{in $3}"):
			args[2] = []int64{1}
		case strings.Contains(query, "seq = $3"):
			args[2] = 1
		case strings.Contains(query, "> $2"):
			args = []any{"hall", 1_000_000}
		case n == 0:
			args = args[:2]
		}
		if strings.Contains(query, "{texts}") {
			args[1] = slices.Repeat([]string{"1", "2"}, 250) // as many as a batch
		}
		var plan []string
		if err := s.each(t.Context(), `EXPLAIN `+query, func(rows sqldb.Row) error {
			var line string
			err := rows.Scan(&line)
			plan = append(plan, line)
			return err
		}, args...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		if text := strings.Join(plan, "\n"); !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("%s: no %q in\n%s", query, want, text)
		}
	}
}

// A session that looked places up when there were few does not read all places later.
func TestLookUpsKeepNoPlan(t *testing.T) {
	t.Parallel()
	databases.LooksUpFew(t, []string{"waiting_places"}, func(pool *pgxpool.Pool) (add func(first, last int), look func(n int)) {
		db := stdlib.OpenDBFromPool(pool)
		t.Cleanup(func() { _ = db.Close() })
		s := Postgres(db)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		add = func(first, last int) {
			_, err := pool.Exec(t.Context(), `INSERT INTO waiting_places (room, seq, lane, lane_seq, subject, account, quantity, joined_at)
				SELECT 'hall', n, '', n, n::text, '', 1, 1 FROM generate_series($1::integer, $2::integer) AS n`, first, last)
			must(err)
		}
		return add, func(n int) {
			number, subject := int64(n), strconv.Itoa(n)
			found, err := s.BySubject(t.Context(), "hall", []string{subject})
			must(err)
			p, err := s.ByNumber(t.Context(), "hall", number)
			must(err)
			all, err := s.ByLaneNumber(t.Context(), "hall", "", []int64{number})
			if must(err); p == nil || len(found) != 1 || len(all) != 1 {
				t.Fatalf("place %d: %v, %v, %v", n, p, found, all)
			}
			must(s.InTx(t.Context(), func(tx store.Tx) error {
				must(tx.GiveTurns(t.Context(), "hall", []store.Turn{{Subject: subject, Position: number, Quantity: 1}}, 1, 2))
				_, err := tx.Admit(t.Context(), "hall", p, 1, 2)
				must(err)
				_, err = tx.Count(t.Context(), "hall", store.Moments{})
				must(err)
				must(tx.Bar(t.Context(), "hall", []string{subject}, "banned", "test"))
				return tx.Leave(t.Context(), "hall", []*store.Place{p})
			}))
		}
	})
}
