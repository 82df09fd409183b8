package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/reports"
)

func reportCommand(getenv func(string) string) *cobra.Command {
	var (
		url, namespace string
		asJSON         bool
	)
	cmd := &cobra.Command{
		Use:   "report SALE",
		Short: "Have a worker write a sale's orders to a CSV file",
		Long: "Queue a task that writes all orders of a sale as CSV to the folder REPORTS of a worker, and print the name of the file. The " +
			"task waits for a worker with that setting, and for a permit of the semaphore " + reports.Semaphore + ", which GET /v1/sales/{sale}/orders.csv also takes. " +
			"The worker checks whether the sale exists, and logs an error if it does not.",
		Args: named,
		RunE: func(cmd *cobra.Command, args []string) error {
			url, namespace := cmp.Or(url, getenv("QUEUE_REDIS_URL"), getenv("REDIS_URL")), cmp.Or(namespace, getenv("NAMESPACE"), "tidegate")
			if url == "" {
				return errors.New("REDIS_URL is required: set it, or pass --queue-redis-url redis://…")
			}
			queue, err := openRedis(cmd.Context(), getenv, url)
			if err != nil {
				return fmt.Errorf("--queue-redis-url: %w", err)
			}
			defer queue.Close()
			file, err := reports.Enqueue(cmd.Context(), queue, namespace, args[0])
			if err != nil {
				return fmt.Errorf("%w; is this the worker's Redis?", err)
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]string{"file": file})
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "Queued for a worker. If the report fails, for example because the sale does not exist, the worker "+
				"logs an error.")
			_, err = fmt.Fprintln(cmd.OutOrStdout(), file)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&url, "queue-redis-url", "", "Redis for task queues (default: QUEUE_REDIS_URL, else REDIS_URL)")
	cmd.Flags().StringVar(&namespace, "namespace", "", "prefix of queues (default: NAMESPACE, else tidegate)")
	return cmd
}
