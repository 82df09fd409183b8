package rehearse

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// Outcome is the result of one attempt, as its buyer observed it.
type Outcome string

// Outcomes. Lost means unknown: no answer, or a 5xx.
const (
	Admitted Outcome = "admitted"
	Refused  Outcome = "refused"
	Lost     Outcome = "lost"
)

// History is everything a crowd saw. The zero value is an empty history; not safe for concurrent use.
type History struct {
	Head
	Calls       []Call
	StatusReads []StatusRead
	Operations  []Operation
	Stops       []Stop
}

// Head identifies a run.
type Head struct {
	Prefix    string    `json:"prefix"` // every buyer of this crowd, and no other, has this prefix
	Sale      string    `json:"sale"`
	StartedAt time.Time `json:"started_at"` // all other times of a history count from here
	Seed      uint64    `json:"seed"`
	Planned   int       `json:"planned"` // calls
}

// Call is one attempt to order. Attempts of one planned call share Seq and count from 1. Orders placed again after a
// cancellation have a Seq of Head.Planned or more.
type Call struct {
	Seq      int           `json:"seq"`
	Attempt  int           `json:"attempt"`
	Buyer    string        `json:"buyer"`
	Item     string        `json:"item"`
	Quantity int           `json:"quantity"`
	Key      string        `json:"key"`
	API      int           `json:"api"`        // index of the process in Options.PublicURLs
	Planned  time.Duration `json:"planned_ns"` // of the planned call, also for its later attempts
	Started  time.Duration `json:"started_ns"`
	Ended    time.Duration `json:"ended_ns"` // answered, or given up
	Outcome  Outcome       `json:"outcome"`
	Status   int           `json:"status,omitempty"` // HTTP; 0 = no answer
	Reason   string        `json:"reason,omitempty"` // of the problem; for a lost response also timeout, connection, hung_up, malformed
	OrderID  string        `json:"order_id,omitempty"`
	State    orders.Status `json:"order_status,omitempty"` // of the order in a 202
	HungUp   bool          `json:"hung_up,omitempty"`      // the buyer meant to cut this attempt, even if the response was faster
	Error    string        `json:"error,omitempty"`
}

// StatusRead is a status of an order that its buyer saw.
type StatusRead struct {
	OrderID string        `json:"order_id"`
	State   orders.Status `json:"order_status"`
	Since   time.Duration `json:"since_ns"` // when its buyer first read the order
	Started time.Duration `json:"started_ns"`
	Ended   time.Duration `json:"ended_ns"`
}

// OperationKind is what an Operation tries.
type OperationKind string

// Kinds of operations.
const (
	Payment OperationKind = "payment"
	Cancel  OperationKind = "cancel"
)

// Operation is one attempt to pay or to cancel an order. Attempts of one payment share Reference and Sent.
type Operation struct {
	Kind      OperationKind `json:"kind"`
	OrderID   string        `json:"order_id"`
	Reference string        `json:"reference,omitempty"` // of a payment
	Sent      int           `json:"sent"`                // number of the sending of this reference, from 1; its attempts share it
	Attempt   int           `json:"attempt"`             // from 1
	Started   time.Duration `json:"started_ns"`
	Ended     time.Duration `json:"ended_ns"`
	Outcome   Outcome       `json:"outcome"`                // Admitted: done
	Status    int           `json:"status,omitempty"`       // HTTP; 0 = no answer
	Reason    string        `json:"reason,omitempty"`       // as in Call
	State     orders.Status `json:"order_status,omitempty"` // in the answer
	Action    orders.Action `json:"action,omitempty"`       // none or refund, of a payment
	Error     string        `json:"error,omitempty"`
}

// Stop is a time in which an API process was stopped, with its connections open, while Redis lost its memory. The sale was then
// rebuilt without the orders that only this process had.
type Stop struct {
	API   int       `json:"api"` // as in Call
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

// line is one line of a history file: exactly one field is set.
type line struct {
	Run        *Head       `json:"run,omitempty"`
	Call       *Call       `json:"call,omitempty"`
	StatusRead *StatusRead `json:"status_read,omitempty"`
	Operation  *Operation  `json:"operation,omitempty"`
	Stop       *Stop       `json:"stop,omitempty"`
}

// add adds what a line has.
func (h *History) add(l line) {
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
func ReadHistory(r io.Reader) (*History, error) {
	h, dec := &History{}, json.NewDecoder(r)
	for n := 1; ; n++ {
		var l line
		switch err := dec.Decode(&l); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return h, nil
		case err != nil:
			return nil, fmt.Errorf("rehearse: history record %d: %w", n, err)
		}
		h.add(l)
	}
}

// recorder collects a history in memory and, while it happens, in a file. Safe for concurrent use.
type recorder struct {
	mu    sync.Mutex
	h     History // guarded by mu
	err   error   // the first write error, guarded by mu
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
func (r *recorder) begin(head Head) {
	r.mu.Lock()
	r.h.Calls = make([]Call, 0, head.Planned+head.Planned/8)
	r.mu.Unlock()
	r.record(line{Run: &head})
}

func (r *recorder) record(l line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.add(l)
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
func (r *recorder) finish() (*History, error) {
	r.flush()
	if r.close != nil {
		r.err = errors.Join(r.err, r.close())
	}
	if r.err != nil {
		return &r.h, fmt.Errorf("rehearse: writing the history: %w", r.err)
	}
	return &r.h, nil
}
