package migrations_test

import (
	"context"
	"database/sql"
	"fmt"

	_ "modernc.org/sqlite"

	"github.com/tidegate/tidegate/migrations"
)

// A database is upgraded at the start. Programs that may not change the schema only check it.
func ExampleSQLite() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file::memory:")
	if err != nil {
		panic(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // each connection would have a memory of its own

	fmt.Println("before:", migrations.CheckSQLite(ctx, db) == nil)
	if err := migrations.SQLite(ctx, db); err != nil {
		panic(err)
	}
	fmt.Println("after:", migrations.CheckSQLite(ctx, db) == nil)
	// Output:
	// before: false
	// after: true
}
