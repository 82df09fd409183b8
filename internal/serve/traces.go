package serve

import (
	"context"
	"log/slog"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/httpapi"
	"github.com/tidegate/tidegate/internal/tracing"
)

// Observe returns the program's log, which adds request and trace ids to records, and the provider that sends its traces. Close
// the provider when no more spans are made; it is nil if the settings name no collector.
func Observe(ctx context.Context, cfg *config.Config, log *slog.Logger, program string) (*slog.Logger, *tracing.Provider, error) {
	log = slog.New(httpapi.LogHandler(log.Handler()))
	traces, err := tracing.Start(ctx, tracing.Options{
		Endpoint: cfg.TracesEndpoint, Sampler: cfg.TracesSampler, Share: cfg.TracesShare, Service: cfg.ServiceName,
		Program: program, Version: Version(), Logger: log,
	})
	if len(cfg.DemoSecrets) > 0 {
		log.WarnContext(ctx, "these secrets are published in Tidegate's repository; set your own before others can reach this process",
			slog.Any("variables", cfg.DemoSecrets))
	}
	for _, warning := range cfg.Warnings {
		log.WarnContext(ctx, warning)
	}
	if wide := cfg.WideProxies(); len(wide) > 0 {
		log.WarnContext(ctx, "TRUSTED_PROXIES contains very large networks: every host in them can claim any user and address; list only the "+
			"proxies' own networks",
			slog.Any("networks", wide))
	}
	return log, traces, err
}
