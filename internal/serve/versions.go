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

// logConnections logs how many connections to Postgres this process may make, and warns if fewer are allowed: other processes
// need some too.
func logConnections(ctx context.Context, log *slog.Logger, pool *pgxpool.Pool) {
	var server, role, database int // -1: no limit
	if err := pool.QueryRow(ctx, `
		SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
		       (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user), (SELECT datconnlimit FROM pg_database WHERE datname = current_database())`).
		Scan(&server, &role, &database); err != nil {
		log.WarnContext(ctx, "cannot read the limits of connections to Postgres", slog.Any("error", err))
		return
	}
	most := int(pool.Config().MaxConns) + 1 // for heartbeats
	attrs := []any{slog.Int("most", most), slog.Int("allowed_by_server", server)}
	least := server
	for name, limit := range map[string]int{"allowed_for_role": role, "allowed_for_database": database} {
		if limit >= 0 {
			attrs, least = append(attrs, slog.Int(name, limit)), min(least, limit)
		}
	}
	if least < most {
		log.WarnContext(ctx, "Postgres may refuse connections of this process: raise its limits, or lower DATABASE_MAX_CONNS", attrs...)
		return
	}
	log.InfoContext(ctx, "connections to Postgres", attrs...)
}
