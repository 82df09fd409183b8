package waitingroom_test

import (
	"database/sql"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/tidegate/tidegate/internal/testenv/databases"
	"github.com/tidegate/tidegate/migrations"
	"github.com/tidegate/tidegate/waitingroom"
)

// hall returns a room in Postgres that gathers.
func hall(b *testing.B) (*waitingroom.Service, *sql.DB) {
	b.Helper()
	pool, err := pgxpool.New(b.Context(), databases.Postgres(b))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	db := stdlib.OpenDBFromPool(pool)
	b.Cleanup(func() { db.Close() })
	if err := migrations.Postgres(b.Context(), db); err != nil {
		b.Fatal(err)
	}
	rooms := waitingroom.New(waitingroom.Postgres(db), waitingroom.Options{Secret: make([]byte, 32), Logger: slog.New(slog.DiscardHandler)})
	if _, _, err := rooms.Put(b.Context(), waitingroom.Definition{
		Room: name, Mode: waitingroom.ModeDraw, GatherAt: time.Now().Add(-time.Minute), StartsAt: time.Now().Add(time.Hour), Capacity: 1,
		ClaimWindow: time.Minute, PassLifetime: time.Minute, Bound: waitingroom.BoundStrict, RequiresUser: true,
	}); err != nil {
		b.Fatal(err)
	}
	return rooms, db
}

// Joining, by 64 callers for each CPU at once; each place is committed when Join returns.
func BenchmarkJoin(b *testing.B) {
	rooms, _ := hall(b)
	var n atomic.Int64
	b.SetParallelism(64)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if p, err := outcome(rooms.Join(b.Context(), name, user(fmt.Sprint("user-", n.Add(1))), 1)); err != nil || !p.Created {
				b.Error(p, err)
			}
		}
	})
	b.ReportMetric(float64(n.Load())/b.Elapsed().Seconds(), "joins/s")
}

// The status of somebody who waits, with the token.
func BenchmarkPlace(b *testing.B) {
	rooms, _ := hall(b)
	p, err := outcome(rooms.Join(b.Context(), name, user("ann"), 1))
	if err != nil {
		b.Fatal(err)
	}
	who := waitingroom.Visitor{User: "ann", Token: p.Token}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := rooms.Place(b.Context(), name, who); err != nil {
				b.Error(err)
			}
		}
	})
}

// The draw of a million places, of which this process has seen nothing before, and of which it has seen all.
func BenchmarkDraw(b *testing.B) {
	for _, seen := range []bool{false, true} {
		b.Run(fmt.Sprintf("seen=%t", seen), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				rooms, db := hall(b)
				if _, err := db.ExecContext(b.Context(), `INSERT INTO waiting_places (room, seq, lane, lane_seq, subject, account, quantity, joined_at)
					SELECT 'shoes', n, '', n, md5(n::text), 'user-' || n, 1, 1 FROM generate_series(1, 1000000) AS n`); err != nil {
					b.Fatal(err)
				}
				if _, err := db.ExecContext(b.Context(), `UPDATE waiting_tails SET joined = 1000000, gathered = 1000000, lanes = '[{"joined":1000000,"gathered":1000000}]'`); err != nil {
					b.Fatal(err)
				}
				if seen {
					if err := rooms.Refresh(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := db.ExecContext(b.Context(), `UPDATE waiting_rooms SET starts_at = 1`); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if err := rooms.Tick(b.Context(), name); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
