package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/internal/serve"
)

func doctorCommand(getenv func(string) string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the servers of an installation",
		Long: "Check what the programs need of Redis and Postgres, with the same settings in the environment as theirs (REDIS_URL, " +
			"DATABASE_URL, QUEUE_REDIS_URL, NAMESPACE, DURABILITY …): one line each, within ten seconds, with what to do. Nothing is changed. " +
			"The exit status is 1 if a program could not start or work, and 2 if a setting is wrong.",
		Args: named,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Worker(nil, getenv, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), 10*time.Second)
			defer cancel()
			list := serve.Doctor(ctx, cfg)
			failed := 0
			for _, f := range list {
				if f.State == serve.StateError {
					failed++
				}
				if !asJSON {
					fmt.Fprintln(cmd.OutOrStdout(), input.Harmless(f.String()))
				}
			}
			if asJSON {
				if err := json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"ok": failed == 0, "findings": list}); err != nil {
					return err
				}
			}
			if failed > 0 {
				return finding{errors.New("an installation with these servers cannot work; see above")}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}
