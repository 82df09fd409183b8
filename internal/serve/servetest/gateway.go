package servetest

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// Recipes returns the blocks of a language in a page of docs.
func Recipes(t testing.TB, page, language string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllSubmatch(text, -1) {
		out = append(out, string(m[1]))
	}
	return out
}

// Replace replaces each of old, new … wherever it stands, and it must stand somewhere.
func Replace(t testing.TB, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("the recipe has no %q", pairs[i])
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}

// Write writes a file of a folder.
func Write(t testing.TB, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// serving starts the program of a gateway or proxy and waits until it listens.
func serving(t testing.TB, addr, dir, program string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		path = "/usr/sbin/" + program // where Debian keeps nginx, outside a user's PATH
	}
	var log bytes.Buffer
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &log, &log
	cmd.Env = []string{"HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "XDG_DATA_HOME=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; make setup installs it", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // killed
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("%s:\n%s", program, log.Bytes())
		}
	})
	Until(t, http.StatusOK, func() Answer {
		select {
		case <-ended:
			t.Fatalf("%s ended:\n%s", program, log.Bytes())
		default:
		}
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			return Answer{Err: err}
		}
		_ = conn.Close()
		return Answer{Status: http.StatusOK}
	})
}

// Nginx starts nginx with the file recipe.conf of a folder, which listens at addr.
func Nginx(t testing.TB, addr, dir string) {
	t.Helper()
	Write(t, dir, "nginx.conf", `
daemon off; master_process off; pid nginx.pid; error_log stderr error;
events {}
http {
	access_log off;
	client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
	include recipe.conf;
}
`)
	serving(t, addr, dir, "nginx", "-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-e", "stderr")
}

// Caddy starts Caddy with a recipe that listens at addr.
func Caddy(t testing.TB, addr, dir, recipe string) {
	t.Helper()
	Write(t, dir, "Caddyfile", "{\n\tadmin off\n}\n"+recipe)
	serving(t, addr, dir, "caddy", "run", "--adapter", "caddyfile", "--config", filepath.Join(dir, "Caddyfile"))
}
