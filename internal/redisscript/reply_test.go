package redisscript_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/internal/testenv"
)

func replyOf(v any, err error) redisscript.Reply {
	return redisscript.ReplyOf(redis.NewCmdResult(v, err))
}

func TestReply(t *testing.T) {
	r := replyOf([]any{int64(1), "2", "word", []any{"a", "b"}, int64(3_000_000), nil, []any{}}, nil)
	if a, b, word, list, time1, null, empty := r.Int(), r.Int(), r.Text(), r.Texts(), r.Time(), r.Next(), r.List(); a != 1 || b != 2 || word != "word" ||
		!slices.Equal(list, []string{"a", "b"}) || !time1.Equal(time.Unix(3, 0)) || null != nil || empty.Len() != 0 {
		t.Error(a, b, word, list, time1, null, empty)
	}
	if err := r.Expect(0); err != nil {
		t.Error(err)
	}
	if one := replyOf(int64(7), nil); one.Int() != 7 || one.Expect(0) != nil {
		t.Error("a number is a list of one")
	}
}

// A wrong value is an error, which is kept, and all further values are zero.
func TestWrongReplies(t *testing.T) {
	refused := errors.New("refused")
	for name, tt := range map[string]struct {
		reply redisscript.Reply
		read  func(r *redisscript.Reply)
		want  error
	}{
		"a refused command":  {replyOf(nil, refused), func(r *redisscript.Reply) { r.Int() }, refused},
		"no list":            {replyOf(nil, redis.Nil), func(r *redisscript.Reply) { r.Texts() }, redis.Nil},
		"no value":           {replyOf([]any{}, nil), func(r *redisscript.Reply) { r.Next() }, redisscript.ErrReply},
		"a word as number":   {replyOf([]any{"x", int64(1)}, nil), func(r *redisscript.Reply) { r.Int() }, redisscript.ErrReply},
		"a number as text":   {replyOf([]any{int64(1), "x"}, nil), func(r *redisscript.Reply) { r.Text() }, redisscript.ErrReply},
		"a number as list":   {replyOf([]any{int64(1), "x"}, nil), func(r *redisscript.Reply) { r.List() }, redisscript.ErrReply},
		"a number in a list": {replyOf([]any{[]any{"x", int64(1)}, "x"}, nil), func(r *redisscript.Reply) { r.Texts() }, redisscript.ErrReply},
		"too many values":    {replyOf([]any{int64(1), int64(1)}, nil), func(r *redisscript.Reply) { _ = r.Expect(1) }, redisscript.ErrReply},
		"an error as text":   {replyOf([]any{refused, "x"}, nil), func(r *redisscript.Reply) { r.Text() }, refused},
	} {
		tt.read(&tt.reply)
		if err := tt.reply.Err(); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		if n, word := tt.reply.Int(), tt.reply.Text(); n != 0 || word != "" {
			t.Errorf("%s: after it %d, %q", name, n, word)
		}
	}
}

// A script is loaded when Redis does not have it, and its source begins with its name.
func TestScriptIsLoaded(t *testing.T) {
	opts, err := redis.ParseURL(testenv.StartRedis(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	once, repeatable := redisscript.New("test once", `return ARGV[1]`), redisscript.Repeatable("test again", `return { KEYS[1], #ARGV }`)
	for range 2 {
		if r := once.Run(t.Context(), rdb, nil, "x"); r.Text() != "x" {
			t.Error(r.Err())
		}
		if r := repeatable.Run(t.Context(), rdb, []string{"k"}, 1, 2); r.Text() != "k" || r.Int() != 2 {
			t.Error(r.Err())
		}
	}
	for _, load := range []bool{false, true} {
		var cmds [2]*redis.Cmd
		if err := rdb.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		_, _ = rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for i := range cmds {
				cmds[i] = repeatable.Queue(t.Context(), p, load, []string{fmt.Sprint(i)}, nil)
			}
			return nil
		})
		for i, cmd := range cmds {
			if r := redisscript.ReplyOf(cmd); r.Unknown() == load || load && r.Text() != fmt.Sprint(i) {
				t.Errorf("load %t: %v", load, r.Err())
			}
		}
	}
}
