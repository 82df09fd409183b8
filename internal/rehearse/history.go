package rehearse

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/tidegate/tidegate/internal/judge"
)

// line is one line of a history file: exactly one field is set.
type line struct {
	Run        *judge.Head       `json:"run,omitempty"`
	Call       *judge.Call       `json:"call,omitempty"`
	StatusRead *judge.StatusRead `json:"status_read,omitempty"`
	Operation  *judge.Operation  `json:"operation,omitempty"`
	Stop       *judge.Stop       `json:"stop,omitempty"`
}

// addTo adds what the line has.
func (l line) addTo(h *judge.History) {
	switch {
	case l.Run != nil:
		h.Head = *l.Run
	case l.Call != nil:
		h.Calls = append(h.Calls, *l.Call)
	case l.StatusRead != nil:
		h.StatusReads = append(h.StatusReads, *l.StatusRead)
	case l.Operation != nil:
		h.Operations = append(h.Operations, *l.Operation)
	case l.Stop != nil:
		h.Stops = append(h.Stops, *l.Stop)
	}
}

// ReadHistory reads what a run wrote to Options.HistoryFile. A last line that was cut off by a crash is ignored.
func ReadHistory(r io.Reader) (*judge.History, error) {
	h, dec := &judge.History{}, json.NewDecoder(r)
	for n := 1; ; n++ {
		var l line
		switch err := dec.Decode(&l); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return h, nil
		case err != nil:
			return nil, fmt.Errorf("rehearse: history record %d: %w", n, err)
		}
		l.addTo(h)
	}
}

// recorder collects a history in memory and, while it happens, in a file. Safe for concurrent use.
type recorder struct {
	mu    sync.Mutex
	h     judge.History // guarded by mu
	err   error         // the first write error, guarded by mu
	enc   *json.Encoder
	buf   *bufio.Writer
	close func() error
}

// newRecorder opens the file, so that a run whose file cannot be opened does not start.
func newRecorder(path string) (*recorder, error) {
	r := &recorder{}
	if path == "" {
		return r, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("%w --history must be a writable file: %w", ErrOption, err)
	}
	r.buf, r.close = bufio.NewWriterSize(f, 1<<18), f.Close
	r.enc = json.NewEncoder(r.buf)
	return r, nil
}

// begin makes room for the calls, so that recording one rarely has to copy the others, and records the head.
func (r *recorder) begin(head judge.Head) {
	r.mu.Lock()
	r.h.Calls = make([]judge.Call, 0, head.Planned+head.Planned/8)
	r.mu.Unlock()
	r.record(line{Run: &head})
}

func (r *recorder) record(l line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.addTo(&r.h)
	if r.enc != nil && r.err == nil {
		r.err = r.enc.Encode(l)
	}
}

// flush bounds how much of the file a crash of the crowd loses.
func (r *recorder) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.buf != nil && r.err == nil {
		r.err = r.buf.Flush()
	}
}

// finish closes the file and returns the history; nothing may be recorded afterwards.
func (r *recorder) finish() (*judge.History, error) {
	r.flush()
	if r.close != nil {
		r.err = errors.Join(r.err, r.close())
	}
	if r.err != nil {
		return &r.h, fmt.Errorf("rehearse: writing the history: %w", r.err)
	}
	return &r.h, nil
}
