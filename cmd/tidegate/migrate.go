package main

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/pgclient"
	"github.com/tidegate/tidegate/migrations"
)

func migrateCommand(getenv func(string) string) *cobra.Command {
	var url string
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Upgrade the database schema",
		Long: "Upgrade the schema of the Postgres database at DATABASE_URL. It is safe to repeat, and to run while processes are running. " +
			"Run it before a new version starts.",
		Args: named,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if url == "" {
				return errors.New("DATABASE_URL is required: set it, or pass --database-url postgres://…")
			}
			log := new(config.Config).Logger(cmd.ErrOrStderr())
			pool, err := pgclient.Open(cmd.Context(), url, "tidegate-migrate", pgclient.MinConns, log)
			if err != nil {
				return fmt.Errorf("DATABASE_URL: %w", err)
			}
			defer pool.Close()
			if err := pgclient.Migrate(cmd.Context(), url, log); err != nil {
				return err
			}
			db := stdlib.OpenDBFromPool(pool)
			defer db.Close()
			if err := migrations.CheckPostgres(cmd.Context(), db); err != nil { // somebody may have dropped a constraint
				return err
			}
			to := pool.Config().ConnConfig
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "The schema of %s at %s is up to date.\n", to.Database, to.Host)
			return err
		},
	}
	cmd.Flags().StringVar(&url, "database-url", "", "Postgres for orders (default: DATABASE_URL)")
	cmd.PreRun = func(*cobra.Command, []string) {
		if url == "" {
			url = getenv("DATABASE_URL")
		}
	}
	return cmd
}
