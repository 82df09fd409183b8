package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/reports"
)

func reportCommand(getenv func(string) string) *cobra.Command {
	var (
		url, namespace string
		asJSON         bool
	)
	cmd := &cobra.Command{
		Use:   "report SALE",
		Short: "Let a worker write a sale's orders into a file",
		Long: "Let a worker write all orders of a sale as CSV into its folder REPORTS. The task waits until a worker has that setting, and until the " +
			"semaphore " + reports.Semaphore + " has a permit for it, which GET /v1/sales/{sale}/orders.csv takes as well. " +
			"The name of the file is printed. Whether there is such a sale, the worker finds out, and its log says so.",
		Args: named,
		RunE: func(cmd *cobra.Command, args []string) error {
			url, namespace := cmp.Or(url, getenv("QUEUE_REDIS_URL"), getenv("REDIS_URL")), cmp.Or(namespace, getenv("NAMESPACE"), "tidegate")
			if url == "" {
				return errors.New("REDIS_URL: is not set; set it, or say --queue-redis-url redis://…")
			}
			opts, err := admission.RedisOptions(url)
			if err != nil {
				return fmt.Errorf("--queue-redis-url: %w", err)
			}
			queue := redis.NewUniversalClient(opts)
			defer queue.Close()
			file, err := reports.Enqueue(cmd.Context(), queue, namespace, args[0])
			if err != nil {
				return fmt.Errorf("%w; is this the worker's Redis?", err)
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]string{"file": file})
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "A worker is asked to write it. If it cannot, as of a sale that it does not know, its log says so.")
			_, err = fmt.Fprintln(cmd.OutOrStdout(), file)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&url, "queue-redis-url", "", "Redis of the task queues (default: QUEUE_REDIS_URL, else REDIS_URL)")
	cmd.Flags().StringVar(&namespace, "namespace", "", "prefix of queues (default: NAMESPACE, else tidegate)")
	return cmd
}
