package logsink_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/logsink"
)

// What is written arrives whole and in order.
func TestLinesArrive(t *testing.T) {
	var got, want bytes.Buffer
	w := logsink.New(&got, 1<<20)
	for i := range 1000 {
		line := fmt.Sprintf("line %d\n", i)
		want.WriteString(line)
		if n, err := io.WriteString(w, line); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	w.Flush(10 * time.Second)
	if got.String() != want.String() {
		t.Errorf("%d of %d bytes arrived", got.Len(), want.Len())
	}
	if n, caughtUp := w.Dropped(); n != 0 || !caughtUp {
		t.Errorf("%d lines dropped; caught up: %v", n, caughtUp)
	}
}

// A reader who does not read delays no writer. What does not fit is dropped, by whole lines, and counted.
func TestAReaderWhoDoesNotReadHoldsUpNobody(t *testing.T) {
	from, to := io.Pipe()
	w := logsink.New(to, 1000)
	const line = "nine more\n"
	for range 300 {
		if n, err := io.WriteString(w, line); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	began := time.Now()
	w.Flush(50 * time.Millisecond)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Flush took %v", took)
	}
	dropped, caughtUp := w.Dropped()
	if dropped < 300-2*100 || caughtUp {
		t.Errorf("%d lines dropped; caught up: %v", dropped, caughtUp)
	}
	kept := make(chan string)
	go func() {
		text, _ := io.ReadAll(from)
		kept <- string(text)
	}()
	w.Flush(10 * time.Second)
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	if text := <-kept; text != strings.Repeat(line, 300-int(dropped)) {
		t.Errorf("%d bytes arrived, and %d lines were dropped of 300", len(text), dropped)
	}
}
