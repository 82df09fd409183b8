package bounded_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tidegate/tidegate/internal/bounded"
)

func TestRead(t *testing.T) {
	for text, want := range map[string]string{"": "", "1234": "1234", "12345": "has more than 4 bytes"} {
		content, err := bounded.Read(strings.NewReader(text), 4)
		if err != nil {
			content = []byte(err.Error())
		}
		if string(content) != want {
			t.Errorf("Read(%q) = %q, want %q", text, content, want)
		}
	}
	away := errors.New("away")
	if _, err := bounded.Read(iotest.ErrReader(away), 4); !errors.Is(err, away) {
		t.Errorf("Read = %v, want %v", err, away)
	}
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if content, err := bounded.File(path, 5); string(content) != "12345" || err != nil {
		t.Errorf("File = %q, %v", content, err)
	}
	if _, err := bounded.File(path, 4); err == nil || err.Error() != path+" has more than 4 bytes" {
		t.Errorf("File = %v", err)
	}
	if _, err := bounded.File(dir, 5); err == nil || err.Error() != dir+" is no file" {
		t.Errorf("File = %v", err)
	}
	if _, err := bounded.File(path+"x", 5); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("File = %v", err)
	}
}
