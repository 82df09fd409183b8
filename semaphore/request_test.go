package semaphore

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/redisscript"
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
	for _, v := range []any{
		nil, "granted",
		[]any{},
		[]any{int64(1)},
		[]any{"granted"},
		[]any{"granted", int64(1)},
		[]any{"waiting", int64(1)},
		[]any{"renewed"},
		[]any{"unknown"},
		[]any{"something"},
	} {
		if r, err := decode(replyOf(v)); err == nil {
			t.Errorf("%v is decoded as %+v", v, r)
		}
	}
	n := int64(1)
	counts, holder, waiter := []any{n, n, n, n, n, n}, []any{"key", n, n, "holder", "1", "1", ""}, []any{"key", n, "holder", n}
	whole := []any{n, n, n, n, n, n, n, counts, holder, waiter, n}
	if _, err := decodeStatus("a", replyOf(whole)); err != nil {
		t.Error(err)
	}
	for _, v := range [][]any{
		{},
		whole[:10], append(slices.Clip(whole), n),
		{n, n, n, n, n, n, n, counts[:5], holder, waiter, n},
		{n, n, n, n, n, n, n, append(slices.Clip(counts), n), holder, waiter, n},
		{n, n, n, n, n, n, n, counts, holder[:6], waiter, n},
		{n, n, n, n, n, n, n, counts, holder, waiter[:3], n},
		{n, n, n, n, n, n, n, n, n, n, n},
	} {
		if st, err := decodeStatus("a", replyOf(v)); err == nil {
			t.Errorf("%v is decoded as %+v", v, st)
		}
	}
}

func replyOf(v any) redisscript.Reply { return redisscript.ReplyOf(redis.NewCmdResult(v, nil)) }

// Requests with an id find their permit again after a deployment.
func TestKeyOfARequestID(t *testing.T) {
	s := &Semaphore{name: "report", set: &Set{opts: SetOptions{Holder: "h"}}}
	ticket, err := s.ticket(Request{ID: "an id"})
	if want := "NkPOzCUGUybvLDbHElohDg"; err != nil || ticket.key != want {
		t.Errorf("key = %q, %v, want %q", ticket.key, err, want)
	}
}
