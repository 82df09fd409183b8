package serve

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/serverversion"
)

// logVersions names the servers, and warns of those that lack security fixes. Of a cluster it asks one node. A server that does not
// say, as some providers' do not, is no reason not to start.
func logVersions(ctx context.Context, cfg *config.Config, log *slog.Logger, r *Redis, pool *pgxpool.Pool) {
	ask := func(variable string, server serverversion.Server, err error) {
		attrs := []any{slog.String("variable", variable), slog.String("server", server.Name), slog.String("server_version", server.Version)}
		if err != nil || server.Version == "" {
			log.WarnContext(ctx, "the version of a server is unknown", append(attrs, slog.Any("error", err))...)
			return
		}
		log.InfoContext(ctx, "server", attrs...)
		if server.Lacks() {
			line, _ := server.Line()
			log.WarnContext(ctx, "a server may lack security fixes: update it, unless its distribution has added them",
				append(attrs, slog.String("least", line.Least), slog.String("fixes", line.Fixes))...)
		}
	}
	askRedis := func(variable string, client redis.UniversalClient) {
		info, err := client.Info(ctx, "server").Result()
		ask(variable, serverversion.Redis(info), err)
	}
	askRedis("REDIS_URL", r.Decisions)
	if cfg.Queue != cfg.Redis {
		askRedis("QUEUE_REDIS_URL", r.Queue)
	}
	var setting string
	err := pool.QueryRow(ctx, `SELECT current_setting('server_version')`).Scan(&setting)
	ask("DATABASE_URL", serverversion.Postgres(setting), err)
}
