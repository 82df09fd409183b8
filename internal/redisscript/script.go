// Package redisscript makes, sends and decodes all Lua scripts of Redis.
package redisscript

import (
	"context"
	_ "embed"
	"errors"
	"io/fs"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A Script is a Lua script. Its first line is a comment with its name, which MONITOR and the slow log show. Make it with New or
// Repeatable; it is safe for concurrent use.
type Script struct {
	source, hash string
	once         bool
}

// New returns a script that is never sent again after it may have run, because a second run would count twice. It changes nothing if
// the user of the connection may not run one of its commands. reads are the commands that it may read with after its first write.
func New(name, source string, reads ...string) *Script {
	s := Repeatable(name, source, reads...)
	s.once = true
	return s
}

// Repeatable is New for a script that may run twice: the client sends it again after a timeout.
func Repeatable(name, source string, reads ...string) *Script {
	source = "-- " + name + "\n" + guarded(source, reads)
	return &Script{source: source, hash: redis.NewScript(source).Hash()}
}

// tryLua is the part "try", a Lua function: try(command, key, ...) returns nil if the key is of another type.
//
//go:embed try.lua
var tryLua string

// Join returns the Lua files of these names, which lack the extension, one after the other. "try" is a file of this package. It panics if
// a file is missing: the files are embedded in the program.
func Join(files fs.ReadFileFS, names ...string) string {
	var b strings.Builder
	for _, name := range names {
		text := []byte(tryLua)
		if name != "try" {
			var err error
			if text, err = files.ReadFile(name + ".lua"); err != nil {
				panic(err)
			}
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	return b.String()
}

// Hash returns the hash by which Redis has the script.
func (s *Script) Hash() string { return s.hash }

// Run runs the script with keys, which must be in one slot, and args.
func (s *Script) Run(ctx context.Context, rdb Client, keys []string, args ...any) Reply {
	return s.Do(ctx, rdb, command(keys, args))
}

// Do fills in the first two elements of command, an EVALSHA, and sends it.
func (s *Script) Do(ctx context.Context, rdb Client, command []any) Reply {
	command[0], command[1] = "evalsha", s.hash
	reply := s.send(ctx, rdb, command)
	if reply.Unknown() { // Redis restarted or failed over
		command[0], command[1] = "eval", s.source
		reply = s.send(ctx, rdb, command)
	}
	return reply
}

// Queue adds the script to a pipeline, with its source if load is set: a server whose Reply is Unknown needs it.
func (s *Script) Queue(ctx context.Context, p redis.Pipeliner, load bool, keys []string, args []any) *redis.Cmd {
	command := command(keys, args)
	command[0], command[1] = "evalsha", s.hash
	if load {
		command[0], command[1] = "eval", s.source
	}
	cmd := redis.NewCmd(ctx, command...)
	_ = p.Process(ctx, cmd) // a pipeline only queues it
	return cmd
}

// command returns a command without its first two elements.
func command(keys []string, args []any) []any {
	command := make([]any, 3, 3+len(keys)+len(args))
	command[2] = len(keys)
	for _, key := range keys {
		command = append(command, key) // no pointer, which would be an argument too: hooks of users may look at keys
	}
	return append(command, args...)
}

// A once is a command that go-redis must not retry. A cluster client ignores MaxRetries: -1: it retries after a timeout, and a script
// that ran the first time would count twice.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

func (s *Script) send(ctx context.Context, rdb Client, args []any) Reply {
	cmd := redis.NewCmd(ctx, args...)
	var err error
	if s.once {
		err = rdb.Process(ctx, once{cmd})
	} else {
		err = rdb.Process(ctx, cmd)
	}
	if err != nil {
		lookAround(ctx, rdb, err)
		return Reply{err: err}
	}
	return ReplyOf(cmd)
}

// lookAround makes a cluster client reload the topology if err is not a reply of Redis: a replica may have replaced a failed master. The
// client itself reloads once a minute, and before a retry, which may be disabled.
func lookAround(ctx context.Context, rdb Client, err error) {
	var answer redis.Error
	if c, ok := Unwrap(rdb).(*redis.ClusterClient); ok && !errors.As(err, &answer) {
		c.ReloadState(ctx) // in the background, at most five times a second
	}
}
