package redisclient

import (
	"fmt"

	"github.com/redis/go-redis/v9"
)

const maxQueued = 16384 // commands waiting in an auto-pipeline

// A pipeline is an auto-pipelined client with a reference to its underlying client.
type pipeline struct {
	*redis.AutoPipeliner
	rdb redis.UniversalClient
}

// Unwrap returns the client under the pipeline.
func (p *pipeline) Unwrap() redis.UniversalClient { return p.rdb }

// AutoPipeline returns a view of rdb in which concurrent callers share round trips, which pays under load. It is closed together with
// rdb. go-redis declares auto-pipelines experimental, so this is the only place that makes them. When 16384 commands are waiting, more
// are refused with redis.ErrAutoPipelineQueueFull.
func AutoPipeline(rdb redis.UniversalClient) (redis.UniversalClient, error) {
	p, err := rdb.AutoPipelineWithOptions(&redis.AutoPipelineOptions{
		MaxBatchSize:         300,
		MaxConcurrentBatches: 1, // the next batch fills while one is under way: deeper batches, lower latency
		MaxQueuedCommands:    maxQueued,
	})
	if err != nil {
		return nil, fmt.Errorf("redisclient: auto-pipeline: %w", err)
	}
	return &pipeline{p, rdb}, nil
}
