package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/embedded"
	"github.com/tidegate/tidegate/internal/rehearse"
	"github.com/tidegate/tidegate/internal/rehearseroom"
)

// builtInLimit is how many orders a minute the built-in rules admit for each user.
const builtInLimit = 100

func demoCommand() *cobra.Command {
	var (
		data string
		exit bool
	)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a sale and a waiting room with simulated crowds on an embedded server, and verify the result",
		Long: "Start an embedded server, send 2,000 buyers to a new sale of 300 tickets, and verify the result. " +
			"Some buyers click twice, some disconnect. Half of the orders are paid, some of them late or twice, a few are cancelled, and the " +
			"rest expire after 2 seconds and are sold again. At the same time, 400 visitors of a waiting room wait for the 40 units of another " +
			"sale: some are silent, some have two devices, some order without a turn. Afterwards the server keeps running until Ctrl-C, so that " +
			"you can explore it.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			return withEmbedded(cmd.Context(), data, nil, cmd.ErrOrStderr(), func(ctx context.Context, at embedded.Place) error {
				at.Describe(out)
				err := demonstrate(ctx, at, out, cmd.ErrOrStderr())
				if err != nil || exit {
					return err
				}
				fmt.Fprintf(out, "\nThe server keeps running at %s, with its live page at %s/. Press Ctrl-C to stop it.\n", at.Public, at.Internal)
				<-ctx.Done()
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "data folder of the server (default: a temporary folder)")
	cmd.Flags().BoolVar(&exit, "exit", false, "exit after the report; status 0 only if every judged invariant holds, else 1")
	return cmd
}

// demonstrate sends a crowd to a sale, and another one through a waiting room, and prints both reports.
func demonstrate(ctx context.Context, at embedded.Place, out, progress io.Writer) error {
	stamp := time.Now().UTC().Format("20060102-150405")
	var (
		running          sync.WaitGroup
		sale             *rehearse.Report
		room             *rehearseroom.Report
		saleErr, roomErr error
	)
	running.Go(func() {
		sale, saleErr = rehearse.Run(ctx, rehearse.Options{
			PublicURLs: []string{at.Public}, InternalURL: at.Internal, Progress: progress,
			Sale: "rehearsal-" + stamp, Items: []string{"ticket"}, Stock: 300,
			Buyers: 2000, Rate: 400, Ramp: time.Second, DuplicateClicks: 0.2, HangUps: 0.05, Keyless: 0.1, Seed: 1,
			Hold: 2 * time.Second, Shares: rehearse.WholeLife(), Limit: builtInLimit,
		})
	})
	running.Go(func() {
		room, roomErr = rehearseroom.Run(ctx, rehearseroom.Options{
			PublicURLs: []string{at.Public}, InternalURL: at.Internal, Sale: "room-" + stamp, Room: "room-" + stamp, Stock: 40, Visitors: 400,
			Late: 0.1, Silent: 0.2, Devices: 0.2, Snipers: 0.1, Reloads: 0.1, HangUps: 0.1, Bots: 0.1, Seed: 1,
		})
	})
	running.Wait()
	return errors.Join(saleErr, roomErr, verdict(sale, table, out), verdict(room, table, out))
}

func rehearseEmbedded(ctx context.Context, o rehearse.Options, show show, stdout, stderr io.Writer) error {
	return withEmbedded(ctx, "", nil, stderr, func(ctx context.Context, at embedded.Place) error {
		o.PublicURLs, o.InternalURL = []string{at.Public}, at.Internal
		if o.Limit == 0 {
			o.Limit = builtInLimit
		}
		report, err := rehearse.Run(ctx, o)
		return errors.Join(err, verdict(report, show, stdout))
	})
}

// withEmbedded starts a server with these settings, ignoring the environment, calls use, and stops the server.
func withEmbedded(
	ctx context.Context, data string, settings []string, stderr io.Writer, use func(context.Context, embedded.Place) error,
) (err error) {
	if data == "" {
		if data, err = os.MkdirTemp("", "tidegate-demo-"); err != nil {
			return err
		}
		defer os.RemoveAll(data)
	}
	cfg, err := config.API(append([]string{
		"-listen", freeOr(ctx, "127.0.0.1:8080"), "-internal-listen", freeOr(ctx, "127.0.0.1:8081"), "-tidegate-data", data, "-log-level", "warn",
	}, settings...), func(string) string { return "" }, stderr)
	if err != nil {
		return err
	}
	parent := ctx
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var (
		at    = make(chan embedded.Place, 1)
		ended = make(chan error, 1)
	)
	go func() {
		defer stop() // a server that fails ends use
		ended <- embedded.Run(ctx, cfg, cfg.Logger(stderr), func(p embedded.Place) { at <- p })
	}()
	select {
	case err := <-ended: // nil if it was stopped
		return cmp.Or(context.Cause(parent), err)
	case place := <-at:
		err := use(ctx, place)
		stop()
		return errors.Join(err, <-ended)
	}
}

// freeOr returns addr if its port is free, else a free port of this machine.
func freeOr(ctx context.Context, addr string) string {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return "127.0.0.1:0"
	}
	_ = l.Close()
	return addr
}
