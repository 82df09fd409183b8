package semaphore

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every text is either rejected as a permit's id, or is the id of its content.
func FuzzPermitID(f *testing.F) {
	set, err := NewSet(nil, SetOptions{Holder: "somebody"})
	if err != nil {
		f.Fatal(err)
	}
	s, err := set.Semaphore("a")
	if err != nil {
		f.Fatal(err)
	}
	t := ticket{key: random(), names: []string{"a", "b", "c-1"}, weight: 17, token: 1795249823921930}
	f.Add(t.id())
	f.Add(t.id()[:30] + "~")
	f.Add("AAAAAAAAAAAAAAAAAAAAAA.01.1")
	f.Fuzz(func(t *testing.T, id string) {
		got, err := s.parseID(id)
		if err != nil {
			return
		}
		again, err := s.parseID(got.id())
		if err != nil || again.key != got.key || again.token != got.token || again.weight != got.weight || !cmp.Equal(again.names, got.names) {
			t.Errorf("%q is %+v, and then %+v, %v", id, got, again, err)
		}
		if got.weight < 1 || got.weight > MaxWeight || got.token < 1 || got.token >= 1<<53 {
			t.Errorf("%q is %+v", id, got)
		}
	})
}

// Whatever Redis replies: it is decoded, or it is an error.
func TestStrangeReplies(t *testing.T) {
	set, err := NewSet(nil, SetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := set.Semaphore("a")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{
		nil, "granted",
		[]any{},
		[]any{int64(1)},
		[]any{"granted"},
		[]any{"granted", int64(1)},
		[]any{"waiting", int64(1)},
		[]any{"renewed"},
		[]any{"unknown"},
		[]any{"status"},
		[]any{"status", 1, 2, 3, 4, 5, 6, 7},
		[]any{"something"},
	} {
		if r := decode(v); r.err == nil || r.problem() == nil {
			t.Errorf("%v is decoded as %+v", v, r)
		}
	}
	for _, v := range [][]any{nil, {1}, {1, 2}, {[]any{}, 2}, {[]any{1, 2}, []any{}}} {
		if _, _, err := parts(v, 1); err == nil {
			t.Errorf("%v has parts", v)
		}
	}
	status := make([]any, 11)
	if _, err := s.status(status); err == nil {
		t.Error("a status without lists")
	}
	status[8], status[9], status[10] = make([]any, 6), make([]any, 6), []any{}
	if _, err := s.status(status); err == nil {
		t.Error("a status with a part of a holder")
	}
}

// Requests with an id find their permit again after a deployment.
func TestKeyOfARequestID(t *testing.T) {
	s := &Semaphore{name: "report", set: &Set{opts: SetOptions{Holder: "h"}}}
	ticket, err := s.ticket(Request{ID: "an id"})
	if want := "NkPOzCUGUybvLDbHElohDg"; err != nil || ticket.key != want {
		t.Errorf("key = %q, %v, want %q", ticket.key, err, want)
	}
}
