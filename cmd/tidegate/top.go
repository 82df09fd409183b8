package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/apiclient"
	"github.com/tidegate/tidegate/internal/livepage"
	"github.com/tidegate/tidegate/internal/periodic"
)

func topCommand(getenv func(string) string) *cobra.Command {
	var (
		api          = internalAPI{getenv: getenv}
		once, asJSON bool
	)
	cmd := &cobra.Command{
		Use: "top", Short: "Show the live page of the internal listener in a terminal",
		Long: "Show live requests, sales, waiting rooms, pending orders and semaphores: the same numbers as the page of the internal " +
			"listener.\nPress q to quit. Without a terminal, one frame is printed after the other. NO_COLOR disables colours.",
		Args: named, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			show := api.showFrames
			if asJSON || once || !isTerminal(cmd.OutOrStdout()) {
				show = func(cmd *cobra.Command) error { return api.printFrames(cmd, once, asJSON) }
			}
			if err := show(cmd); once || !errors.Is(err, context.Canceled) {
				return err
			}
			return nil // the command runs until it is interrupted
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "print one frame and exit")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each frame as JSON, one per line")
	api.addFlags(cmd)
	return cmd
}

func (a *internalAPI) printFrames(cmd *cobra.Command, once, asJSON bool) error {
	out, width := cmd.OutOrStdout(), 100
	if f, ok := out.(interface{ Fd() uintptr }); ok {
		if cells, _, err := term.GetSize(f.Fd()); err == nil && cells > 0 {
			width = cells
		}
	}
	return a.follow(cmd.Context(), func(raw []byte, frame *livepage.Frame) (more bool, err error) {
		if asJSON {
			_, err = fmt.Fprintf(out, "%s\n", harmlessJSON(raw))
		} else {
			_, err = lipgloss.Fprintln(out, screen{frame: frame, width: width}.text())
		}
		return !once, err
	}, func(err error) { fmt.Fprintln(cmd.ErrOrStderr(), err) })
}

func (a *internalAPI) showFrames(cmd *cobra.Command) error {
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	program := tea.NewProgram(screen{}, tea.WithContext(ctx), tea.WithInput(cmd.InOrStdin()), tea.WithOutput(cmd.OutOrStdout()))
	ended := make(chan error, 1)
	go func() {
		ended <- a.follow(ctx, func(_ []byte, frame *livepage.Frame) (bool, error) {
			program.Send(frame)
			return true, nil
		}, func(err error) { program.Send(lost{err}) })
		program.Quit()
	}()
	_, err := program.Run()
	cancel()
	if failed := <-ended; failed != nil && !errors.Is(failed, context.Canceled) {
		return failed
	}
	if errors.Is(err, tea.ErrProgramKilled) && cmd.Context().Err() != nil {
		return cmd.Context().Err() // ended by a signal
	}
	return err
}

// Parameters of the stream.
const (
	silentFor    = 10 * time.Second // the stream is lost without data for this long; a frame is due every second
	openAgainIn  = time.Second
	frameAtMost  = 8 << 20 // bytes
	eventOfFrame = "frame"
)

// follow calls frame for each frame until frame returns false. A stream that ends is reopened, and lost is called with the reason if that
// fails. A stream that never began, or was refused, is an error.
func (a *internalAPI) follow(
	ctx context.Context, frame func(raw []byte, f *livepage.Frame) (more bool, err error), lost func(error),
) error {
	for seen := false; ; {
		var stopped bool
		err := a.frames(ctx, func(raw []byte, f *livepage.Frame) (bool, error) {
			seen = true
			more, err := frame(raw, f)
			stopped = !more || err != nil
			return !stopped, err
		})
		refused, isRefused := errors.AsType[*apiclient.Refused](err)
		switch {
		case stopped || !seen:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case isRefused && refused.Response.StatusCode < http.StatusInternalServerError:
			return err
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) { // the server states the reason when the stream is reopened
			lost(err)
		}
		if !periodic.Pause(ctx, openAgainIn) {
			return ctx.Err()
		}
	}
}

// frames calls fn for each frame of one stream until fn returns false, or the stream ends, which is an error.
func (a *internalAPI) frames(ctx context.Context, fn func(raw []byte, frame *livepage.Frame) (more bool, err error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(silentFor, func() { cancel(fmt.Errorf("no data from %s for %v", a.base, silentFor)) })
	defer silent.Stop()
	c, at, err := a.client(nil, []string{"events"})
	if err != nil {
		return err
	}
	stream, err := c.Stream(ctx, at)
	if err != nil {
		return a.advised(ctx, http.MethodGet, at, err)
	}
	defer stream.Close()
	event := ""
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, frameAtMost)
	for lines.Scan() {
		silent.Reset(silentFor)
		line := lines.Bytes()
		if name, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
			event = string(name)
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok || event != eventOfFrame {
			continue
		}
		frame := &livepage.Frame{}
		if err := json.Unmarshal(data, frame); err != nil {
			return fmt.Errorf("unexpected response from %s: %w", a.base, err)
		}
		if more, err := fn(data, frame); err != nil || !more {
			return err
		}
	}
	return cmp.Or(context.Cause(ctx), lines.Err(), fmt.Errorf("%s: %w", a.base, io.ErrUnexpectedEOF))
}
