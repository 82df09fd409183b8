// Command bench measures this project and prints Markdown: whole programs beside a hand-assembled stack and beside servers that do
// nothing, and its limiters and semaphores beside others for Go, on servers that it starts itself. The contenders take turns, so that a
// machine whose speed varies affects them equally; the relevant number is the ratio within a round.
//
//	cd bench && go run . [-only orders,refusals] [-size usual] [-json report.json]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"

	"github.com/tidegate/tidegate/bench/stack"
)

// A run is one execution of this program.
type run struct {
	out        io.Writer
	json       string // file for the report; empty: none
	report     report
	root       string     // of this project
	t          testing.TB // owner of the started servers, which end with it
	size       size
	fsync      bool   // of Postgres
	tuned      bool   // includes a handmade stack that writes orders with one statement
	other      string // another checkout to measure beside this one; empty: none
	stacks     []*stack.Stack
	floor      *stack.Stack   // of the suite orders
	servers    *stack.Servers // for stacks
	scripts    *stack.Scripts
	redis      *redisServer
	rounds     int
	length     time.Duration // of one measurement
	callers    int
	subjects   int
	window     time.Duration  // for exactness
	chosen     *regexp.Regexp // names of the contenders
	sections   []section
	cpuProfile string // prefix of the files; empty: none
}

// A section is one or more tables.
type section struct {
	name string
	show func(*run, context.Context) error
}

var sections = []section{
	{"orders", (*run).orders},
	{"lives", (*run).lives},
	{"refusals", (*run).refusals},
	{"idle", (*run).atRest},
	{"overload", (*run).overload},
	{"growth", (*run).growth},
	{"room", (*run).rooms},
	{"exact", (*run).exactness},
	{"redis", (*run).overRedis},
	{"denials", (*run).denials},
	{"memory", (*run).inMemory},
	{"bytes", (*run).bytes},
	{"flat", (*run).flat},
	{"semaphore", (*run).semaphores},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := start(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, args []string, out io.Writer) error {
	r, err := parse(args, out)
	if err != nil {
		return err
	}
	return testenv.Lend(ctx, func(t testing.TB) error {
		r.t, r.redis = t, startRedis(t)
		return r.all(ctx)
	})
}

func parse(args []string, out io.Writer) (*run, error) {
	r := &run{out: out, window: time.Second}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&r.rounds, "rounds", 3, "rounds of each table of limiters and semaphores; medians are shown")
	flags.DurationVar(&r.length, "turn", time.Second, "length of each contender's turn in a round")
	flags.IntVar(&r.callers, "callers", 256, "how many ask at once")
	flags.IntVar(&r.subjects, "subjects", 100_000, "different users who are asked about")
	length := flags.String("size", "usual", "how long the suites that start programs take: brief, usual or thorough")
	flags.StringVar(&r.other, "other", "", "folder of another checkout of this project, measured by orders, lives, room, idle and overload as well")
	flags.BoolVar(&r.fsync, "fsync", false, "have Postgres flush its log with each commit")
	flags.BoolVar(&r.tuned, "tuned", false, "have orders measure a handmade stack as well whose worker writes an order with one statement")
	flags.StringVar(&r.json, "json", "", "file to write all figures to")
	only := flags.String("only", "", "tables to show, of orders, lives, refusals, idle, overload, growth, room, exact, redis, denials, "+
		"memory, bytes, flat, semaphore (default all)")
	chosen := flags.String("contenders", "",
		"regular expression for the names of contenders, or of settings of growth, beside the first of each table")
	flags.StringVar(&r.cpuProfile, "cpuprofile", "", "write a profile of each contender's first turn to files that begin so")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if r.rounds < 1 || r.length <= 0 || r.callers < 1 || r.subjects < 1 {
		return nil, errors.New("-rounds, -turn, -callers and -subjects should be positive")
	}
	var ok bool
	if r.size, ok = sizes[*length]; !ok {
		return nil, fmt.Errorf("-size: there is no %q", *length)
	}
	var err error
	if r.root, err = filepath.Abs(".."); err != nil {
		return nil, err
	}
	if r.chosen, err = regexp.Compile(*chosen); err != nil {
		return nil, fmt.Errorf("-contenders: %w", err)
	}
	r.sections = sections
	if *only != "" {
		r.sections = nil
		for name := range strings.SplitSeq(*only, ",") {
			i := slices.IndexFunc(sections, func(s section) bool { return s.name == name })
			if i < 0 {
				return nil, fmt.Errorf("-only: there is no table %q", name)
			}
			r.sections = append(r.sections, sections[i])
		}
	}
	return r, nil
}

func (r *run) all(ctx context.Context) error {
	r.preface(ctx)
	for _, s := range r.sections {
		if err := s.show(r, ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return errors.Join(ctx.Err(), r.write())
}
