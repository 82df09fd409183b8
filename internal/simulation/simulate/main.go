// Simulate runs worlds of package simulation in WebAssembly. There the host decides the time, which moves only when every goroutine waits,
// and all chance. So a number gives the same world, the same trace and the same breach each time.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/simulation"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := start(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var errBroken = errors.New("simulate: a world is broken")

// run is a run of many worlds.
type run struct {
	host        *host
	out         io.Writer
	first, last uint64
	shape       *simulation.Shape
	most        int // size of a world; 0: any
	trace, all  bool
	began       time.Time

	mu     sync.Mutex
	report report  // guarded by mu
	traces [8]byte // guarded by mu
	next   uint64  // number; guarded by mu
	shown  time.Time
	err    error // guarded by mu
}

// report is a run as JSON.
type report struct {
	First, Last uint64
	Worlds      int
	Repeated    int // of them, and compared
	Promised    int // orders
	Simulated   time.Duration
	Took        time.Duration
	Slowest     uint64        // world
	Longest     time.Duration // that it took
	Traces      string        // hash of the traces of these worlds, whatever their order: the same for the same worlds of the same commit
	Broken      []broken
}

// broken is a world with a breach.
type broken struct {
	Number   uint64
	Breaches []string
	Shape    simulation.Shape // of a run that stops at the first: as small as it still breaks
}

func start(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("simulate", flag.ContinueOnError)
	seeds := flags.String("seeds", "1-1000", "numbers of the worlds: one, or two such as 1-1000")
	most := flags.Int("size", 0, "leave out larger worlds: the smallest have 9, half of them at most 31; 0: leave out none")
	shape := flags.String("shape", "", "JSON of a world's shape, instead of what the number draws")
	trace := flags.Bool("trace", false, "print what happens, one world after the other")
	all := flags.Bool("all", false, "go on after a breach")
	file := flags.String("json", "", "file for the result")
	defects := flags.String("defects", "", "folder of patches, each of which worlds have to find")
	only := flags.String("only", "", "the only one of these patches, without its extension")
	cover := flags.String("cover", "", "folder for the parts of the product that worlds execute, for go tool covdata; prints them by package")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r := &run{out: out, most: *most, trace: *trace, all: *all, began: time.Now()}
	var err error
	if r.first, r.last, err = parseSeeds(*seeds); err != nil {
		return err
	}
	if *defects != "" {
		return findDefects(ctx, *defects, *only, r.first, r.last, out)
	}
	if *shape != "" {
		r.shape = new(simulation.Shape)
		err := json.Unmarshal([]byte(*shape), r.shape)
		if err == nil {
			err = r.shape.Validate()
		}
		if err != nil {
			return fmt.Errorf("simulate: -shape: %w", err)
		}
	}
	if *cover != "" {
		r.host, err = newCoverHost(ctx, *cover)
	} else {
		r.host, err = newHost(ctx)
	}
	if err != nil {
		return err
	}
	defer r.host.runtime.Close(context.WithoutCancel(ctx))
	r.began, r.shown, r.next = time.Now(), time.Now(), r.first
	r.runAll(ctx)
	if *file != "" {
		text, err := json.MarshalIndent(r.report, "", "  ")
		if err == nil {
			err = os.WriteFile(*file, append(text, '\n'), 0o644)
		}
		r.err = errors.Join(r.err, err)
	}
	if *cover != "" {
		r.err = errors.Join(r.err, showCover(ctx, *cover, out))
	}
	if r.err == nil && len(r.report.Broken) > 0 {
		r.err = errBroken
	}
	return errors.Join(r.err, ctx.Err())
}

// showCover prints the part of each package's statements that worlds have executed.
func showCover(ctx context.Context, folder string, out io.Writer) error {
	percent := exec.CommandContext(ctx, "go", "tool", "covdata", "percent", "-i", folder)
	percent.Stdout, percent.Stderr = out, out
	return percent.Run()
}

func parseSeeds(text string) (first, last uint64, err error) {
	from, to, ranged := strings.Cut(text, "-")
	if !ranged {
		to = from
	}
	first, err = strconv.ParseUint(from, 10, 64)
	if err == nil {
		last, err = strconv.ParseUint(to, 10, 64)
	}
	if err != nil || first > last {
		return 0, 0, fmt.Errorf("simulate: seeds %q should be a number, or two such as 1-1000", text)
	}
	return first, last, nil
}

func (r *run) runAll(ctx context.Context) {
	var working sync.WaitGroup
	workers := atOnce()
	if r.trace {
		workers = 1
	}
	for range workers {
		working.Go(func() {
			for number, more := r.take(ctx); more; number, more = r.take(ctx) {
				r.one(ctx, number)
			}
		})
	}
	working.Wait()
	r.report.First, r.report.Last, r.report.Took = r.first, r.last, time.Since(r.began)
	r.report.Traces = hex.EncodeToString(r.traces[:])
	fmt.Fprintf(r.out, "%d worlds: %d broken, %d repeated, %d orders promised, %v simulated in %v, %.0f worlds an hour, hash of all traces %s\n",
		r.report.Worlds, len(r.report.Broken), r.report.Repeated, r.report.Promised, r.report.Simulated.Round(time.Second),
		r.report.Took.Round(time.Second), float64(r.report.Worlds)/r.report.Took.Hours(), r.report.Traces)
}

// take returns the next number, unless the run is over.
func (r *run) take(ctx context.Context) (number uint64, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for ; r.most > 0 && r.next <= r.last; r.next++ {
		if s := simulation.Draw(r.next); s.Size() <= r.most {
			break
		}
	}
	if ctx.Err() != nil || r.next > r.last || r.err != nil || !r.all && len(r.report.Broken) > 0 {
		return 0, false
	}
	r.next++
	return r.next - 1, true
}

// one runs a world; one in a hundred twice.
func (r *run) one(ctx context.Context, number uint64) {
	trace := io.Discard
	if r.trace {
		trace = r.out
	}
	started := time.Now()
	o, err := r.host.run(ctx, number, r.shape, trace)
	took := time.Since(started)
	repeated := err == nil && number%100 == 0
	if repeated {
		again, failed := r.host.run(ctx, number, r.shape, io.Discard)
		if err = failed; err == nil && again.Hash != o.Hash {
			err = fmt.Errorf("simulate: it is not the same twice: %s and %s", o.Hash, again.Hash)
		}
	}
	if ctx.Err() != nil {
		return
	}
	var found []broken
	if err == nil && len(o.Breaches) > 0 {
		b := broken{number, o.Breaches, o.Shape}
		if !r.all {
			b.Shape = shrink(o.Shape, r.breaksAgain(ctx, number, o))
		}
		found = []broken{b}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.err = errors.Join(r.err, fmt.Errorf("world %d: %w", number, err))
		return
	}
	r.report.Worlds++
	if repeated {
		r.report.Repeated++
	}
	hash := sha256.Sum256(fmt.Appendf(nil, "%d %s", number, o.Hash))
	for i := range r.traces {
		r.traces[i] ^= hash[i]
	}
	r.report.Promised += o.Promised
	r.report.Simulated += o.Took
	if took > r.report.Longest {
		r.report.Slowest, r.report.Longest = number, took
	}
	r.report.Broken = append(r.report.Broken, found...)
	for _, b := range found {
		r.show(b, o.Shape)
	}
	if r.trace {
		fmt.Fprintf(r.out, "world %d: hash %s\n", number, o.Hash)
	}
	if now := time.Now(); now.Sub(r.shown) > 10*time.Second {
		r.shown = now
		left := time.Duration(float64(now.Sub(r.began)) / float64(r.next-r.first) * float64(r.last-r.next+1))
		fmt.Fprintf(r.out, "%d worlds, %d broken, at number %d of %d, %v left\n",
			r.report.Worlds, len(r.report.Broken), r.next-1, r.last, left.Round(time.Second))
	}
}

// show prints a broken world, and how to see it again.
func (r *run) show(b broken, drawn simulation.Shape) {
	fmt.Fprintf(r.out, "world %d is broken:\n  %s\n", b.Number, strings.Join(b.Breaches, "\n  "))
	replay := fmt.Sprintf("make simulate SEED=%d TRACE=1", b.Number)
	fmt.Fprintf(r.out, "see it again: %s\n", replay)
	if reflect.DeepEqual(b.Shape, drawn) {
		return
	}
	if text, err := json.Marshal(b.Shape); err == nil {
		fmt.Fprintf(r.out, "see less of it: %s SHAPE='%s'\n", replay, text)
	}
}
