//go:build failpoints

package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

var (
	armed string
	left  atomic.Int64
)

func init() {
	text := os.Getenv("FAILPOINT")
	if text == "" {
		return
	}
	name, count, _ := strings.Cut(text, ":")
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil || n < 1 {
		panic(fmt.Sprintf("FAILPOINT is %q, and must be name:N", text))
	}
	armed = name
	left.Store(n)
}

// writeLine writes to stderr. That may be a full pipe without a reader; then it goes on after 100 ms.
func writeLine(line string) {
	written := make(chan struct{})
	go func() {
		_, _ = os.Stderr.WriteString(line)
		close(written)
	}()
	select {
	case <-written:
	case <-time.After(100 * time.Millisecond):
	}
}

// Armed reports whether the process fails at a place.
func Armed(name string) bool { return name == armed }

// Hit kills the process if this is the place and the time for it.
func Hit(name string) {
	if name != armed || left.Add(-1) != 0 {
		return
	}
	writeLine(fmt.Sprintf(`{"level":"WARN","msg":"killed at a failpoint","failpoint":%q}`+"\n", name))
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // do not continue until the signal is delivered
}
