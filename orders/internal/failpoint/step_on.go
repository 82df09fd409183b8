//go:build failpoints

package failpoint

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var dir = os.Getenv("FAILPOINT_DIR")

// Step stops the process, or this goroutine, if the step is armed. It reads the disk each time, so use it for rare steps only.
func Step(name string) {
	if dir == "" {
		return
	}
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, syscall.SIGCONT) // before the claim, which is the signal to stop and resume the process
	defer signal.Stop(resumed)
	claimed := filepath.Join(dir, name+"."+strconv.Itoa(os.Getpid()))
	if os.Rename(filepath.Join(dir, name), claimed) != nil {
		return // it is not armed, or another process was first
	}
	text, err := os.ReadFile(claimed)
	if err != nil {
		panic(fmt.Sprintf("failpoint %s: %v", name, err))
	}
	what, length, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	writeLine(fmt.Sprintf(`{"level":"WARN","msg":"stopped at a failpoint","failpoint":%q,"how":%q}`+"\n", name, text))
	switch what {
	case "freeze":
		<-resumed
	case "stall":
		d, err := time.ParseDuration(length)
		if err != nil {
			panic(fmt.Sprintf("failpoint %s: %v", name, err))
		}
		time.Sleep(d)
	default:
		panic(fmt.Sprintf("failpoint %s is %q, and must be \"freeze\" or \"stall DURATION\"", name, text))
	}
}
