// Guest runs one world inside WebAssembly, where program simulate controls time and chance: guest NUMBER [SHAPE]. It prints the trace to
// standard error, and the result as JSON to standard output.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/redis/go-redis/v9"
	lua "github.com/yuin/gopher-lua"

	"github.com/tidegate/tidegate/internal/simulation"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 || len(args) > 2 {
		return errors.New("guest: NUMBER, or NUMBER and SHAPE, should be given")
	}
	number, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil {
		return err
	}
	shape := simulation.Draw(number)
	if len(args) > 1 {
		shape = simulation.Shape{}
		if err := json.Unmarshal([]byte(args[1]), &shape); err != nil {
			return err
		}
	}
	lua.RegistrySize, lua.CallStackSize = 1024, 64 // instead of 5120 and 256, which miniredis would allocate for each script
	redis.SetLogger(logger{})                      // its own has the time of the world in another form
	result, err := simulation.Run(context.Background(), number, shape, os.Stderr)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// logger writes what the Redis client logs into the trace.
type logger struct{}

func (logger) Printf(_ context.Context, format string, args ...any) {
	fmt.Fprintf(os.Stderr, "           "+format+"\n", args...)
}
