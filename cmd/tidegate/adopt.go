package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/internal/names"
	"github.com/tidegate/tidegate/internal/pgclient"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/postgres"
	"github.com/tidegate/tidegate/orders/shop"
)

func adoptCommand(getenv func(string) string) *cobra.Command {
	var (
		database, url, namespace string
		yes                      bool
	)
	cmd := &cobra.Command{
		Use:   "adopt",
		Short: "Make a database and a namespace in Redis belong together",
		Long: "Make the Postgres database at DATABASE_URL and NAMESPACE in the Redis at REDIS_URL belong together, after a restore or a " +
			"move. Processes do not start with a pair that does not belong together. Stop all processes of both first, and clear Redis after a " +
			"restore.",
		Args: named,
		RunE: func(cmd *cobra.Command, _ []string) error {
			database, url, namespace := cmp.Or(database, getenv("DATABASE_URL")), cmp.Or(url, getenv("REDIS_URL")), cmp.Or(namespace,
				getenv("NAMESPACE"), "tidegate")
			if database == "" || url == "" {
				return errors.New("DATABASE_URL and REDIS_URL are required: set them, or pass --database-url postgres://… and --redis-url redis://…")
			}
			if !orders.ValidName(namespace) {
				return fmt.Errorf("NAMESPACE must be "+names.Length+" letters, digits, dots, underscores or hyphens, got %q", namespace)
			}
			rdb, err := openRedis(cmd.Context(), getenv, url)
			if err != nil {
				return fmt.Errorf("REDIS_URL: %w", err)
			}
			defer rdb.Close()
			pool, err := pgclient.Open(cmd.Context(), database, "tidegate-adopt", pgclient.MinConns, new(config.Config).Logger(cmd.ErrOrStderr()))
			if err != nil {
				return fmt.Errorf("DATABASE_URL: %w", err)
			}
			defer pool.Close()
			store := postgres.New(pool)
			if err := store.CheckSchema(cmd.Context()); err != nil {
				return err
			}
			found, err := shop.ReadOwnership(cmd.Context(), rdb, store, namespace)
			if err != nil {
				return err
			}
			out, db := cmd.OutOrStdout(), found.Database
			fmt.Fprintf(out, "The database is at %s (system identifier/oid).\n", db.Live)
			if db.ID == "" {
				fmt.Fprintln(out, "It has not been used yet.")
			} else {
				fmt.Fprintf(out, "It belongs to namespace %s, since it was at %s, with the id %s.\n", input.Harmless(db.Namespace), db.Stored, db.ID)
			}
			fmt.Fprintf(out, "Namespace %s in Redis belongs to database %s.\n", namespace, input.Harmless(cmp.Or(found.Owner, "none")))
			if db.ID != "" && found.Owner != "" && found.Err() == nil {
				_, err := fmt.Fprintln(out, "They belong together; nothing was changed.")
				return err
			}
			if !yes {
				if err := confirm(cmd, "Make them belong together? All processes of both must be stopped."); err != nil {
					return err
				}
			}
			if err := shop.Adopt(cmd.Context(), rdb, store, namespace); err != nil {
				return err
			}
			_, err = fmt.Fprintln(out, "They belong together now.")
			return err
		},
	}
	cmd.Flags().StringVar(&database, "database-url", "", "Postgres for orders (default: DATABASE_URL)")
	cmd.Flags().StringVar(&url, "redis-url", "", "Redis for decisions (default: REDIS_URL)")
	cmd.Flags().StringVar(&namespace, "namespace", "", "prefix of keys in Redis (default: NAMESPACE, else tidegate)")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}
