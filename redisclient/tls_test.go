package redisclient_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/redisclient"
)

// TestFiles: a server that requires certificates of its authority gets them, and replaced files apply to the next connection.
func TestFiles(t *testing.T) {
	ours, other, dir := testenv.NewAuthority(t), testenv.NewAuthority(t), t.TempDir()
	_, url := testenv.StartTLSRedis(t, ours)
	files := redisclient.Files{CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "client.pem"), Key: filepath.Join(dir, "client.key")}
	trust := func(a *testenv.Authority) {
		t.Helper()
		text, err := os.ReadFile(a.CAFile)
		if err == nil {
			err = os.WriteFile(files.CA, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	trust(ours)
	ours.Issue(files.Cert, files.Key)
	opts, err := redisclient.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	redisclient.SetTimeout(opts, testTimeout)
	bare, err := redisclient.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	if err := bare.Ping(t.Context()).Err(); err == nil {
		t.Error("the server takes a client without a certificate")
	}
	if opts, err = files.Options(url); err != nil {
		t.Fatal(err)
	}
	redisclient.SetTimeout(opts, testTimeout)
	for _, step := range []struct {
		name   string
		change func()
		ok     bool
	}{
		{"our certificate", func() {}, true},
		{"another authority's certificate", func() { other.Issue(files.Cert, files.Key) }, false},
		{"a new certificate", func() { ours.Issue(files.Cert, files.Key) }, true},
		{"another authority", func() { trust(other) }, false},
		{"the right authority", func() { trust(ours) }, true},
	} {
		step.change()
		client, err := redisclient.New(opts) // has no connection yet
		if err != nil {
			t.Fatal(err)
		}
		if err := client.Ping(t.Context()).Err(); (err == nil) != step.ok {
			t.Errorf("%s: %v", step.name, err)
		}
		_ = client.Close()
	}

	for _, unusable := range []redisclient.Files{{CA: files.Key}, {CA: files.CA + "x"}, {Cert: files.Cert}, {Cert: files.Cert, Key: files.Cert}} {
		if _, err := unusable.Options(url); err == nil {
			t.Errorf("%+v has no error", unusable)
		}
	}
}
