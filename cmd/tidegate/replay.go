package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/apiclient"
	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/orders"
)

func replayCommand(getenv func(string) string) *cobra.Command {
	var (
		o    options
		all  bool
		sale string
		api  = internalAPI{getenv: getenv}
		one  = apiCall{
			method: http.MethodPost, path: func(args []string) []string { return replayPath(args[0]) }, columns: orderColumns, complete: deadOrders,
		}
	)
	cmd := &cobra.Command{
		Use: "replay ID", Short: "Commit a dead letter, or all of them, after their cause is removed",
		Long: "Commit a dead letter after its cause is removed, or with --all all dead letters, one after the other. An order that the " +
			"database still refuses stays a dead letter, and the others with the same reason are not tried: the cause is still there. It is " +
			"safe to interrupt the command and to repeat it. The exit status is 1 if dead letters are left.",
		Example: "  tidegate orders replay 8cae58b4-371d-8000-8007-2cd5d46f9cfd\n  tidegate orders replay --all\n  tidegate orders replay " +
			"--all --sale spring",
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 0:
				return fmt.Errorf("--all replays all dead letters: leave out --all or %q", args[0])
			case !all && sale != "":
				return errors.New("--sale requires --all")
			case all:
				return nil
			}
			return named(cmd, args)
		},
		ValidArgsFunction: one.complete.of(&api),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all {
				return replayAll(cmd, &api, sale, o.asJSON)
			}
			return one.run(cmd, args, &api, o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&all, "all", false, "replay all dead letters")
	f.StringVar(&sale, "sale", "", "with --all: only dead letters of this sale")
	f.BoolVar(&o.asJSON, "json", false, "print the API's JSON; with --all: the counts as JSON")
	_ = cmd.RegisterFlagCompletionFunc("sale", saleNames.of(&api)) // fails only for an unknown flag
	api.addFlags(cmd)
	return cmd
}

func replayPath(id string) []string { return []string{"v1", "orders", "dead", id, "replay"} }

// betweenCounts is how often the progress is printed.
const betweenCounts = time.Second

// replayed counts what became of dead letters.
type replayed struct {
	DeadLetters int `json:"dead_letters"`
	Committed   int `json:"committed"`
	Rejected    int `json:"rejected"` // a later order of the same buyer had their key
	Refused     int `json:"refused"`  // again
	NotTried    int `json:"not_tried"`
}

func (r *replayed) done() int { return r.DeadLetters - r.NotTried }

func (r *replayed) print(out io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(r)
	}
	_, err := fmt.Fprintf(out, "%d dead letters: %d committed, %d rejected, %d refused again, %d not tried\n",
		r.DeadLetters, r.Committed, r.Rejected, r.Refused, r.NotTried)
	return err
}

// replayAll replays the dead letters of all sales, or of one. An answer to a replay is final: the order is committed, or still a
// dead letter.
func replayAll(cmd *cobra.Command, api *internalAPI, sale string, asJSON bool) error {
	ctx, progress := cmd.Context(), cmd.ErrOrStderr()
	letters, err := api.deadLetters(ctx, sale)
	if err != nil {
		return err
	}
	counts := replayed{DeadLetters: len(letters), NotTried: len(letters)}
	same := make(map[string]int) // by reason
	for _, l := range letters {
		same[l.Reason]++
	}
	printed := time.Now()
	for _, l := range letters {
		if same[l.Reason] == 0 {
			continue
		}
		same[l.Reason]--
		var order sales.OrderView
		order, err = ask[sales.OrderView](ctx, api, http.MethodPost, nil, nil, replayPath(l.OrderID)...)
		switch {
		case apiclient.HasStatus(err, http.StatusConflict):
			counts.Refused++
			counts.NotTried--
			fmt.Fprintln(progress, err)
			if apiclient.HasReason(err, stillRefused) && same[l.Reason] > 0 {
				fmt.Fprintf(progress, "%d more dead letters with the same reason are not tried: %s\n", same[l.Reason], input.Harmless(l.Reason))
				same[l.Reason] = 0
			}
			continue
		case err != nil:
			return errors.Join(counts.print(cmd.OutOrStdout(), asJSON),
				fmt.Errorf("%w; repeat the command to continue: no order is committed twice", err))
		case order.Status == orders.StatusRejected:
			counts.Rejected++
		default:
			counts.Committed++
		}
		if counts.NotTried--; time.Since(printed) >= betweenCounts {
			printed = time.Now()
			fmt.Fprintf(progress, "%d of %d dead letters replayed\n", counts.done(), counts.DeadLetters)
		}
	}
	if err := counts.print(cmd.OutOrStdout(), asJSON); err != nil {
		return err
	}
	if counts.Refused > 0 {
		return errors.New("the database still refuses orders: remove the cause, and repeat the command")
	}
	return nil
}

// stillRefused is the API's reason when the database refuses a dead letter again.
const stillRefused = "still_refused"

// deadLetters lists those of a sale, or of all sales if it is empty.
func (a *internalAPI) deadLetters(ctx context.Context, sale string) (letters []sales.DeadLetterView, err error) {
	err = a.pages(ctx, nil, func(item json.RawMessage) error {
		l, err := decoded[sales.DeadLetterView](item)
		if err == nil && (sale == "" || l.Sale == sale) {
			letters = append(letters, l)
		}
		return err
	}, "v1", "orders", "dead")
	if err == nil && letters == nil && sale != "" {
		_, err = a.sale(ctx, sale) // it may not exist
	}
	return letters, err
}
