package embedded

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/migrations"
	"github.com/tidegate/tidegate/orders/sqlite"
)

// ErrInUse means that another process uses the data folder.
var ErrInUse = errors.New("embedded: the data folder is in use")

// folder is the data folder: lock (held while the process runs), secret, and the database. The zero value is not usable.
type folder struct {
	path string
	lock *flock.Flock
}

// openFolder locks the folder, creating it if necessary. Two processes would sell the same units from two separate memories.
func openFolder(path string) (*folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("TIDEGATE_DATA must be a writable folder: %w", err)
	}
	lock := flock.New(filepath.Join(path, "lock"))
	switch locked, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("TIDEGATE_DATA must be a writable folder: %w", err)
	case !locked:
		return nil, fmt.Errorf("%w: another process uses %s; stop it, or set TIDEGATE_DATA to another folder", ErrInUse, path)
	}
	return &folder{path: path, lock: lock}, nil
}

func (f *folder) close() error { return f.lock.Close() }

// secret returns the installation's secret, which is generated at the first start.
func (f *folder) secret() (config.Secret, error) {
	path := filepath.Join(f.path, "secret")
	kept, err := os.ReadFile(path)
	if err == nil {
		value := strings.TrimSpace(string(kept))
		if len(value) < 32 {
			return "", fmt.Errorf("embedded: %s must contain at least 32 characters, got %d; without the file a new secret is generated",
				path, len(value))
		}
		return config.Secret(value), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("embedded: %w", err)
	}
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails
	value := hex.EncodeToString(random)
	// Rename the complete file, so that a crash never leaves a partial secret.
	if err := os.WriteFile(path+".new", []byte(value+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("embedded: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return "", fmt.Errorf("embedded: %w", err)
	}
	return config.Secret(value), nil
}

// database opens the database and upgrades its schema.
func (f *folder) database(ctx context.Context) (*sql.DB, error) {
	path, err := filepath.Abs(filepath.Join(f.path, "tidegate.db"))
	if err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: sqlite.Options}).String())
	if err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	if err := migrations.SQLite(ctx, db); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("embedded: %s: %w", path, err)
	}
	return db, nil
}
