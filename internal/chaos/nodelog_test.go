package chaos

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestABlockedLog: while a log is blocked, its process cannot write to it, and afterwards nothing is missing.
func TestABlockedLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	log, err := newNodeLog(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.block(); !errors.Is(err, errNothingThere) {
		t.Errorf("without a process: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "while read line; do echo $line >&2; echo $line; done")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := log.start(cmd); err != nil {
		t.Fatal(err)
	}
	written := make(chan string)
	go func() {
		defer close(written)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			written <- lines.Text()
		}
	}()
	write := func(line string) {
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	write("before")
	if line := <-written; line != "before" {
		t.Errorf("%q, want before", line)
	}
	if err := log.block(); err != nil {
		t.Fatal(err)
	}
	write("meanwhile")
	select {
	case line := <-written:
		t.Errorf("%q was written to a blocked log", line)
	case <-time.After(200 * time.Millisecond):
	}
	log.unblock()
	if line := <-written; line != "meanwhile" {
		t.Errorf("%q, want meanwhile", line)
	}
	in.Close()
	<-written
	if err := errors.Join(cmd.Wait(), log.close()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil || !bytes.HasPrefix(text, []byte("before\n ")) || !bytes.HasSuffix(text, []byte(" meanwhile\n")) {
		t.Errorf("the log is %q, %v", text[:min(len(text), 20)], err)
	}
}
