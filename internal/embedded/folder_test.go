package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOneProcessPerFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a folder?with#odd%20name", "below")
	first, err := openFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openFolder(path); !errors.Is(err, ErrInUse) {
		t.Fatalf("second: %v", err)
	}
	db, err := first.database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var mode, synchronous string
	if err := db.QueryRow("SELECT * FROM pragma_journal_mode, pragma_synchronous").Scan(&mode, &synchronous); err != nil {
		t.Fatal(err)
	}
	if mode != "wal" || synchronous != "2" {
		t.Errorf("journal_mode %s, synchronous %s: what is committed may be lost", mode, synchronous)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(path, "tidegate.db")); err != nil {
		t.Fatal(err)
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	again, err := openFolder(path)
	if err != nil {
		t.Fatalf("after the first ended: %v", err)
	}
	_ = again.close()
}

func TestTheSecretStays(t *testing.T) {
	f, err := openFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	made, err := f.secret()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := f.secret()
	if err != nil || kept != made || len(made) < 32 {
		t.Fatalf("%d characters, then %v, %v", len(made), kept == made, err)
	}
	path := filepath.Join(f.path, "secret")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.secret(); err == nil {
		t.Fatal("a short secret was taken")
	}
}

func TestKeysExpireInMemory(t *testing.T) {
	m, err := startMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	opts, err := redis.ParseURL(string(m.url))
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	ctx := t.Context()
	if err := rdb.Set(ctx, "soon", 1, 100*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.Set(ctx, "later", 1, time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	stranger := redis.NewClient(&redis.Options{Addr: opts.Addr})
	defer stranger.Close()
	if err := stranger.Get(ctx, "later").Err(); err == nil {
		t.Error("whoever knows the port may read")
	}
	go func() { _ = m.Run(ctx) }()
	gone := time.NewTicker(10 * time.Millisecond)
	defer gone.Stop()
	for start := time.Now(); rdb.Exists(ctx, "soon").Val() == 1; <-gone.C {
		if time.Since(start) > 5*time.Second {
			t.Fatal("it does not expire")
		}
	}
	if rdb.Exists(ctx, "later").Val() != 1 {
		t.Error("it expired an hour early")
	}
}
