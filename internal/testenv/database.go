package testenv

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var sharedPostgres lazy[*server]

// Postgres returns the URL of a new, empty database, dropped when the test ends. It is on this test binary's server, or on that of
// TEST_DATABASE_URL.
func Postgres(t testing.TB) string {
	t.Helper()
	// template0 accepts no connections; a connection would make the copy fail.
	return newDatabase(t, "template0")
}

// A Template is a database that is filled once in a test binary and copied for each test.
type Template struct {
	fill func(ctx context.Context, url string) error
	name lazy[string]
}

// NewTemplate returns a template. The first Copy calls fill, which must close its connections.
func NewTemplate(fill func(ctx context.Context, url string) error) *Template {
	return &Template{fill: fill}
}

// Copy returns the URL of a copy of the template, otherwise like Postgres.
func (p *Template) Copy(t testing.TB) string {
	t.Helper()
	if os.Getenv("TEST_DATABASE_URL") != "" { // a template on that server would outlive the tests
		url := Postgres(t)
		if err := p.fill(t.Context(), url); err != nil {
			t.Fatalf("testenv: %v", err)
		}
		return url
	}
	admin := adminURL(t)
	return newDatabase(t, p.name.get(t, func() (string, error) {
		name, err := createDatabase(admin, "template0")
		if err != nil {
			return "", err
		}
		return name, p.fill(context.Background(), withDatabase(admin, name))
	}))
}

// adminURL returns the URL of a database of the shared server.
func adminURL(t testing.TB) string {
	t.Helper()
	if admin := os.Getenv("TEST_DATABASE_URL"); admin != "" {
		return admin
	}
	return postgresURL(sharedPostgres.get(t, func() (*server, error) { return newPostgres("") }))
}

// newDatabase copies a database of the shared server for one test.
func newDatabase(t testing.TB, template string) string {
	t.Helper()
	admin := adminURL(t)
	name, err := createDatabase(admin, template)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(func() {
		if err := execSQL(admin, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("testenv: %v", err)
		}
	})
	return withDatabase(admin, name)
}

// Clone returns the URL of a database with the content of another one, otherwise like Postgres.
func Clone(t testing.TB, url string) string {
	t.Helper()
	copied := Postgres(t)
	bin, err := postgresBin()
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	var dumping, restoring bytes.Buffer
	dump := exec.CommandContext(t.Context(), filepath.Join(bin, "pg_dump"), "--no-owner", "--dbname", url)
	restore := exec.CommandContext(t.Context(), filepath.Join(bin, "psql"), "--quiet", "--no-psqlrc", "--set", "ON_ERROR_STOP=1", "--output",
		os.DevNull, "--dbname", copied)
	dump.Stderr, restore.Stderr = &dumping, &restoring
	if restore.Stdin, err = dump.StdoutPipe(); err == nil {
		err = dump.Start()
	}
	if err != nil {
		t.Fatalf("testenv: clone: %v", err)
	}
	if err := errors.Join(restore.Run(), dump.Wait()); err != nil {
		t.Fatalf("testenv: clone: %v: %s%s", err, &dumping, &restoring)
	}
	return copied
}

const syntaxError = "42601" // SQLSTATE

func createDatabase(admin, template string) (name string, err error) {
	if _, err := url.Parse(admin); err != nil {
		return "", errors.New("TEST_DATABASE_URL is not a URL")
	}
	name = "test_" + strings.ToLower(rand.Text()[:16])
	create := "CREATE DATABASE " + name + " TEMPLATE " + template
	err = execSQL(admin, create+" STRATEGY FILE_COPY") // a fraction of the time of the default, which writes the copy to the WAL
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == syntaxError {
		err = execSQL(admin, create) // Postgres 14 and earlier always copy files
	}
	return name, err
}

// withDatabase returns the URL of another database of the same server.
func withDatabase(admin, name string) string {
	u, _ := url.Parse(admin) // already parsed by createDatabase
	u.Path = "/" + name
	return u.String()
}

func execSQL(dsn, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}
