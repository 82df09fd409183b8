package stack

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Share is Redis' time for one kind of command.
type Share struct {
	Name  string        `json:"name"`
	Calls int64         `json:"calls"`
	Took  time.Duration `json:"took_ns"`
}

// Commands returns the commands that Redis has run since its statistics were reset, from INFO commandstats.
func (s *Servers) Commands(ctx context.Context) ([]Share, error) {
	text, err := s.Redis.Info(ctx, "commandstats").Result()
	if err != nil {
		return nil, err
	}
	var shares []Share
	for line := range strings.Lines(text) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "cmdstat_")
		if !ok {
			continue
		}
		name, numbers, _ := strings.Cut(name, ":")
		var calls, usec int64
		if _, err := fmt.Sscanf(numbers, "calls=%d,usec=%d", &calls, &usec); err != nil {
			return nil, fmt.Errorf("commandstats: %q: %w", line, err)
		}
		shares = append(shares, Share{name, calls, time.Duration(usec) * time.Microsecond})
	}
	return shares, nil
}

// ResetCommands resets the statistics.
func (s *Servers) ResetCommands(ctx context.Context) error {
	return s.Redis.ConfigResetStat(ctx).Err()
}

// Scripts maps the SHA-1 of scripts to their names.
type Scripts struct {
	mu    sync.Mutex
	names map[string]string // guarded by mu
}

// KnownScripts returns the scripts in asynq's module. Those of this project begin with their names, see saw.
func KnownScripts(asynq string) (*Scripts, error) {
	k := &Scripts{names: map[string]string{}}
	text, err := os.ReadFile(filepath.Join(asynq, "internal", "rdb", "rdb.go"))
	if err != nil {
		return nil, err
	}
	for _, m := range regexp.MustCompile("(?s)var (\\w+)Cmd = redis\\.NewScript\\(`([^`]*)`").FindAllStringSubmatch(string(text), -1) {
		k.names[hash(m[2])] = "asynq " + m[1]
	}
	return k, nil
}

func hash(script string) string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}

// saw records a script that a program has loaded, under the comment in its first line.
func (k *Scripts) saw(script string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sha := hash(script)
	if k.names[sha] != "" {
		return
	}
	first, _, _ := strings.Cut(strings.TrimSpace(script), "\n")
	first = strings.TrimPrefix(first, "-- ")
	k.names[sha] = first[:min(len(first), 40)]
}

func (k *Scripts) name(sha string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if name := k.names[sha]; name != "" {
		return name
	}
	return "script " + sha[:min(8, len(sha))]
}

// loaded matches a command that loads a script, in a line of MONITOR.
var loaded = regexp.MustCompile(`(?i)"(?:eval|script" "load)" ("(?:[^"\\]|\\.)*")`)

// Watch records the scripts that programs load until stop is called.
func (k *Scripts) Watch(ctx context.Context, s *Servers) (stop func(), err error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Redis.Options().Addr)
	if err != nil {
		return nil, err
	}
	if _, err := c.Write([]byte("MONITOR\r\n")); err != nil {
		_ = c.Close()
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewReaderSize(c, 1<<20)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			if m := loaded.FindStringSubmatch(line); m != nil {
				if script, err := strconv.Unquote(m[1]); err == nil {
					k.saw(script)
				}
			}
		}
	}()
	return func() { _ = c.Close(); <-done }, nil
}

// leastMicros is the minimum time of a script to be logged. Commands within scripts are faster and would fill the log.
const leastMicros = "8"

// Sample returns the time of each script that Redis runs while f runs. commandstats does not distinguish scripts, so it uses the slow
// log. This costs Redis time, so do not measure anything else in the same run.
func (s *Servers) Sample(ctx context.Context, k *Scripts, f func()) ([]Share, error) {
	set := func(least string) error { return s.Redis.ConfigSet(ctx, "slowlog-log-slower-than", least).Err() }
	if err := s.Redis.Do(ctx, "SLOWLOG", "RESET").Err(); err != nil {
		return nil, err
	}
	if err := set(leastMicros); err != nil {
		return nil, err
	}
	f()
	if err := set("-1"); err != nil {
		return nil, err
	}
	log, err := s.Redis.SlowLogGet(ctx, -1).Result()
	if err != nil {
		return nil, err
	}
	by := map[string]*Share{}
	for _, entry := range log {
		if !strings.EqualFold(entry.Args[0], "evalsha") || len(entry.Args) < 2 {
			continue
		}
		name := k.name(entry.Args[1])
		if by[name] == nil {
			by[name] = &Share{Name: name}
		}
		by[name].Calls++
		by[name].Took += entry.Duration
	}
	var shares []Share
	for _, share := range by {
		shares = append(shares, *share)
	}
	return shares, nil
}
