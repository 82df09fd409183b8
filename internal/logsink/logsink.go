// Package logsink writes a log without ever waiting for whoever reads it.
package logsink

import (
	"io"
	"sync"
	"time"
)

// A Writer passes on what is written to it in the background. When its reader does not keep up, it keeps as many bytes as it has room for,
// and drops further lines: a process without a reader of its log must not stop. Make it with New. It is safe for concurrent use.
type Writer struct {
	to   io.Writer
	room int

	mu      sync.Mutex
	idle    *sync.Cond
	waiting []byte // guarded by mu
	writing bool   // guarded by mu; a goroutine passes on what waits
	dropped uint64 // guarded by mu
}

// New returns a writer that keeps at most room bytes.
func New(to io.Writer, room int) *Writer {
	w := &Writer{to: to, room: room}
	w.idle = sync.NewCond(&w.mu)
	return w
}

// Write takes a whole line, or drops it. It returns len(line) and no error in both cases.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting)+len(line) > w.room {
		w.dropped++
		return len(line), nil
	}
	w.waiting = append(w.waiting, line...)
	if !w.writing {
		w.writing = true
		go w.passOn()
	}
	return len(line), nil
}

// passOn writes until nothing waits.
func (w *Writer) passOn() {
	var lines []byte
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.waiting) > 0 {
		lines, w.waiting = w.waiting, lines[:0]
		w.mu.Unlock()
		_, _ = w.to.Write(lines) // there is nowhere to report it
		w.mu.Lock()
	}
	w.writing = false
	w.idle.Broadcast()
}

// Dropped returns how many lines have been dropped, and whether the reader has kept up with the others by now.
func (w *Writer) Dropped() (lines uint64, caughtUp bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped, !w.writing
}

// Flush waits until everything is passed on, at most for the time within.
func (w *Writer) Flush(within time.Duration) {
	over := time.Now().Add(within)
	timer := time.AfterFunc(within, w.idle.Broadcast)
	defer timer.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.writing && time.Now().Before(over) {
		w.idle.Wait()
	}
}
