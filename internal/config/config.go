// Package config reads a program's settings from its environment and its flags, and rejects settings that cannot work before anything is
// started.
package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/dialects/koala"
	"github.com/tidegate/tidegate/internal/loglimit"
	"github.com/tidegate/tidegate/internal/pgclient"
	"github.com/tidegate/tidegate/internal/tracing"
	"github.com/tidegate/tidegate/redisclient"
)

// Config is the settings of a program. The zero value is not usable: API and Worker make one.
type Config struct {
	Redis    URL // decisions; empty: embedded
	Queue    URL // tasks; default: the same server as Redis
	Database URL // empty: embedded
	Data     string
	Migrate  bool

	DatabaseConns int // connections to the database, besides one for heartbeats

	RedisTimeout time.Duration     // of a call to the Redis for decisions
	RedisFiles   redisclient.Files // for every Redis with TLS

	Listen         string
	InternalListen string
	WorkerListen   string
	KeepAlive      time.Duration // of idle connections

	Identity       string // IdentityJWT or IdentityHeader
	JWTSecret      Secret
	JWKSFile       string
	JWKSURL        string
	JWTIssuer      string
	JWTAudience    string
	TrustedProxies []netip.Prefix
	CORSOrigins    []string
	CORSHeaders    []string

	Captcha          string // a captcha.Provider's name
	CaptchaSiteKey   string
	CaptchaSecret    Secret
	CaptchaHostnames []string

	InternalToken  Secret
	MetricsToken   Secret
	TokensFile     string
	RulesFile      string
	PassKeyBefore  string // another key whose passes are accepted; empty: none
	VWRIssuers     []string
	PassKeyFile    string // private key of waiting rooms' passes; empty: derived from Secret
	KoalaFile      string // Koala rule file, or a koala.conf; empty: none
	KoalaZone      *time.Location
	Warnings       []string // about where secrets come from
	DemoSecrets    []string // variables whose secrets this repository publishes; AllowDemo permits them
	AllowDemo      bool
	Secret         Secret // embedded: may be empty, then the data folder holds one
	PreviousSecret Secret // empty: none
	Namespace      string
	Durability     string   // of reservations in Redis; empty: as Redis is configured
	HistoryDays    int      // how long the history of bans and logins is kept; 0: for ever
	MaxRemembered  int      // orders that an API remembers: uncommitted ones, and as many committed ones
	DrandRelays    []string // base URLs
	RoomDays       int      // how long waiting rooms are kept after their end; 0: for ever
	Reports        string   // the worker's folder; empty: no reports

	TracesEndpoint string // base URL of a collector; empty: no tracing
	TracesSampler  string // standard name of a sampler
	TracesShare    float64
	ServiceName    string // in traces; default: the program's name

	LogLevel  slog.Level
	LogFormat string // "text" or "json"
}

// How the public listener identifies callers.
const (
	IdentityJWT    = "jwt"
	IdentityHeader = "header"
)

// captchas are the third-party providers of challenges, as a text.
var captchas = alternatives(captcha.Providers())

// Embedded reports whether the program runs without Redis and Postgres.
func (c *Config) Embedded() bool { return c.Redis == "" }

// Logger returns a logger that writes to w in the configured format and level, and no faster than package loglimit allows. Durations are
// numbers of milliseconds, with "_ms" appended to their keys.
func (c *Config) Logger(w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: c.LogLevel, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			return slog.Float64(a.Key+"_ms", float64(a.Value.Duration().Microseconds())/1000)
		}
		return loglimit.Cut(groups, a)
	}}
	if c.LogFormat == "json" {
		return slog.New(loglimit.New(slog.NewJSONHandler(w, opts)))
	}
	return slog.New(loglimit.New(slog.NewTextHandler(w, opts)))
}

// A setting is one environment variable with its flag of the same name.
type setting struct {
	name     string
	usage    string
	fallback string
	worker   bool // the worker reads it too
	set      func(string) error
}

func (s *setting) flag() string { return strings.ReplaceAll(strings.ToLower(s.name), "_", "-") }

func (c *Config) settings() []setting {
	return []setting{
		{"REDIS_URL", "Redis for decisions; set it together with DATABASE_URL, or neither for the embedded server", "", true, c.Redis.setRedis},
		{"DATABASE_URL", "Postgres for orders", "", true, c.Database.setPostgres},
		{"QUEUE_REDIS_URL", "Redis for task queues (default: REDIS_URL)", "", true, c.Queue.setRedis},
		{
			"REDIS_TIMEOUT", "timeout of a call to Redis for decisions, at least three round trips; a decision takes at most twice as long",
			redisclient.DefaultTimeout.String(), true, duration(&c.RedisTimeout, 20*time.Millisecond, time.Second),
		},
		{"DATABASE_MAX_CONNS", "maximum number of connections to Postgres, besides one for heartbeats; pool_max_conns in DATABASE_URL takes " +
			"precedence", strconv.Itoa(pgclient.DefaultConns), true, number(&c.DatabaseConns, pgclient.MinConns, 1000)},
		{"REDIS_CA_FILE", "PEM file of the authorities that issued the certificates of Redis and its sentinels, with rediss:// (default: the " +
			"system's)", "", true, file(&c.RedisFiles.CA)},
		{"REDIS_CERT_FILE", "PEM file of this program's certificate for Redis, with rediss://; read again for every connection, like the " +
			"other two files", "", true, file(&c.RedisFiles.Cert)},
		{"REDIS_KEY_FILE", "PEM file of the private key of REDIS_CERT_FILE", "", true, file(&c.RedisFiles.Key)},
		{"TIDEGATE_DATA", "data folder of the embedded server", "./tidegate-data", false, text(&c.Data)},
		{"MIGRATE", "upgrade the database schema before starting", "false", true, boolean(&c.Migrate)},

		{"LISTEN", "address of the public listener", ":8080", false, address(&c.Listen)},
		{"INTERNAL_LISTEN", "address of the internal listener", "127.0.0.1:8081", false, address(&c.InternalListen)},
		{"WORKER_LISTEN", "address of the worker's health checks and metrics", "127.0.0.1:8082", true, address(&c.WorkerListen)},
		{
			"KEEP_ALIVE", "how long idle connections stay open; longer than the balancer in front keeps them", "620s", false,
			duration(&c.KeepAlive, time.Second, time.Hour),
		},

		{
			"IDENTITY", "identification of public callers: jwt or header (default of the embedded server: header)", "", false,
			oneOf(&c.Identity, IdentityJWT, IdentityHeader),
		},
		{"JWT_SECRET", "key of HS256 tokens, at least 32 characters", "", false, c.JWTSecret.atLeast(32)},
		{"JWT_JWKS_FILE", "file with the public keys of RS256, ES256 and EdDSA tokens", "", false, file(&c.JWKSFile)},
		{
			"JWT_JWKS_URL", "URL of the public keys of RS256, ES256 and EdDSA tokens, with https, or http of this machine", "", false,
			keysURL(&c.JWKSURL),
		},
		{"JWT_ISSUER", "required iss claim of tokens", "", false, text(&c.JWTIssuer)},
		{"JWT_AUDIENCE", "required aud claim of tokens", "", false, text(&c.JWTAudience)},
		{
			"TRUSTED_PROXIES", "addresses and networks of trusted proxies, whose X-Forwarded-For and X-User-ID are used, comma-separated", "",
			true, networks(&c.TrustedProxies),
		},
		{"CORS_ORIGINS", "origins whose pages may call the public listener, comma-separated; * for all", "", false, origins(&c.CORSOrigins)},
		{
			"CORS_HEADERS", "request header fields that these pages may send besides those of this API and of tracing, comma-separated", "", false,
			fields(&c.CORSHeaders),
		},

		{
			"CAPTCHA", "CAPTCHA provider: altcha (self-hosted proof of work), " + captchas, captcha.Own, false,
			oneOf(&c.Captcha, append([]string{captcha.Own}, captcha.Providers()...)...),
		},
		{"CAPTCHA_SITE_KEY", "site key of " + captchas, "", false, text(&c.CaptchaSiteKey)},
		{"CAPTCHA_SECRET", "secret of " + captchas, "", false, c.CaptchaSecret.given},
		{"CAPTCHA_HOSTNAMES", "hostnames of the pages with " + captchas + ", comma-separated", "", false, hostnames(&c.CaptchaHostnames)},

		{"INTERNAL_TOKEN", "token of a single operator, at least 16 characters", "", false, c.InternalToken.atLeast(16)},
		{
			"METRICS_TOKEN", "token that may only read /metrics of the internal listener; requires INTERNAL_TOKEN", "", false,
			c.MetricsToken.atLeast(16),
		},
		{"TOKENS_FILE", "YAML file of tokens with names and roles", "", false, file(&c.TokensFile)},
		{"RULES_FILE", "YAML file of the admission rules (default: the built-in rules)", "", true, file(&c.RulesFile)},
		{"PASS_KEY_FILE", "PEM file with the private key of waiting rooms' passes, RSA (RS256) or Ed25519 (EdDSA), the same in all processes " +
			"(default: an Ed25519 key derived from SECRET)", "", false, file(&c.PassKeyFile)},
		{
			"PASS_KEY_FILE_PREVIOUS", "second PASS_KEY_FILE while it is changed: accepted in passes, never used for new ones", "", false,
			file(&c.PassKeyBefore),
		},
		{
			"VWR_ISSUERS", "issuers that services may ask for in /vwr/generate_token, besides tidegate, comma-separated (default: no others)", "",
			false, issuers(&c.VWRIssuers),
		},
		{
			"DRAND_URLS", "relays of drand for waiting rooms with a beacon, comma-separated; no others are asked",
			"https://api.drand.sh,https://drand.cloudflare.com", false, relays(&c.DrandRelays),
		},
		{"KOALA_FILE", "Koala rule file, or koala.conf, for the endpoints below /koala", "", false, file(&c.KoalaFile)},
		{"KOALA_ZONE", "time zone in which the days of KOALA_FILE begin", koala.DefaultZone, false, zone(&c.KoalaZone)},
		{"SECRET", "key from which all keyed hashes and signatures are derived, at least 32 characters (default of the embedded server: " +
			"generated, kept in TIDEGATE_DATA)", "", false, c.Secret.atLeast(32)},
		{
			"SECRET_PREVIOUS", "second SECRET while it is changed: accepted in signatures, never used for new ones", "", false,
			c.PreviousSecret.atLeast(32),
		},
		{
			"ALLOW_DEMO_SECRETS", "accept secrets that Tidegate's repository publishes, for trials that only you can reach", "false", true,
			boolean(&c.AllowDemo),
		},
		{
			"NAMESPACE", "prefix of keys and channels in Redis, and of the names of queues there, whose keys and channel begin with asynq:",
			"tidegate", true, namespace(&c.Namespace),
		},
		{"DURABILITY", "minimum durability of an order in Redis before it is accepted: memory, everysec, fsync or replicated (default: as " +
			"Redis is configured)", "", true, oneOf(&c.Durability, "memory", "everysec", "fsync", "replicated")},
		{
			"MAX_REMEMBERED", "maximum number of uncommitted orders that an API keeps in memory; it also keeps so many committed ones", "100000",
			false, number(&c.MaxRemembered, 1000, 100_000_000),
		},
		{
			"HISTORY_DAYS", "days to keep the history of bans, logins and operators' changes; 0: forever", "90", false,
			number(&c.HistoryDays, 0, 36500),
		},
		{"ROOM_DAYS", "days to keep a waiting room and its places after its end; 0: forever", "30", false, number(&c.RoomDays, 0, 36500)},
		{"REPORTS", "folder for the worker's reports (default: no reports)", "", true, folder(&c.Reports)},

		{
			"OTEL_EXPORTER_OTLP_ENDPOINT", "base URL of an OpenTelemetry collector for traces, over HTTP (default: no tracing)", "", true,
			collector(&c.TracesEndpoint),
		},
		{
			"OTEL_TRACES_SAMPLER", "sampler of traces: always_on, always_off or traceidratio, or one of them with the prefix parentbased_",
			tracing.DefaultSampler, true, oneOf(&c.TracesSampler, tracing.Samplers...),
		},
		{"OTEL_TRACES_SAMPLER_ARG", "share of traces that traceidratio samples, 0 to 1", "1", true, share(&c.TracesShare)},
		{"OTEL_SERVICE_NAME", "service name in traces (default: tidegate-api or tidegate-worker)", "", true, text(&c.ServiceName)},

		{"LOG_LEVEL", "lowest level to log: debug, info, warn or error", "info", true, level(&c.LogLevel)},
		{"LOG_FORMAT", "format of the log: text or json", "text", true, oneOf(&c.LogFormat, "text", "json")},
	}
}

// ErrVersion is the error for the flag -version: the program prints its version and ends.
var ErrVersion = errors.New("version requested")

// API reads the settings of the API program. The error lists everything that is wrong, or is flag.ErrHelp after the help was written, or
// ErrVersion.
func API(args []string, getenv func(string) string, stderr io.Writer) (*Config, error) {
	c, given, wrong := read("api", args, getenv, stderr, func(setting) bool { return true })
	return c.unless(append(append(wrong, c.checkAPI(given)...), c.checkPublished(given)...))
}

// Worker reads the settings of the worker program; otherwise it is like API.
func Worker(args []string, getenv func(string) string, stderr io.Writer) (*Config, error) {
	c, given, wrong := read("worker", args, getenv, stderr, func(s setting) bool { return s.worker })
	return c.unless(append(append(wrong, c.checkWorker(given)...), c.checkPublished(given)...))
}

func (c *Config) unless(wrong []error) (*Config, error) {
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return c, nil
}

// values holds the value given for each variable, by flag or environment; an empty value counts as not given.
type values map[string]string

func (t values) has(name string) bool { return t[name] != "" }

func read(
	program string, args []string, getenv func(string) string, stderr io.Writer, wanted func(setting) bool,
) (*Config, values, []error) {
	c, given := new(Config), values{}
	flags := flag.NewFlagSet(program, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the caller prints the error
	settings := c.settings()
	for _, s := range settings {
		if !wanted(s) {
			continue
		}
		given[s.name] = getenv(s.name)
		usage := s.usage + " [" + s.name + "]"
		if s.fallback != "" {
			usage += fmt.Sprintf(" (default %s)", s.fallback)
		}
		keep := func(value string) error { given[s.name] = value; return nil }
		if s.fallback == "false" {
			flags.BoolFunc(s.flag(), usage, keep)
		} else {
			flags.Func(s.flag(), usage, keep)
		}
		if slices.Contains(secretVariables, s.name) {
			file := setting{name: s.name + fileSuffix}
			given[file.name] = getenv(file.name)
			flags.Func(file.flag(), "file that contains "+s.name+" ["+file.name+"]",
				func(value string) error { given[file.name] = value; return nil })
		}
	}
	version := flags.Bool("version", false, "print version, commit and date")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(stderr, "Usage of %s: each flag overrides the environment variable in brackets.\n", program)
		flags.SetOutput(stderr)
		flags.PrintDefaults()
		return c, nil, []error{err}
	} else if err != nil {
		return c, nil, []error{fmt.Errorf("%w; -h lists the flags", err)}
	}
	if *version {
		return c, nil, []error{ErrVersion}
	}
	var wrong []error
	if flags.NArg() > 0 {
		wrong = append(wrong, fmt.Errorf("unexpected argument %q; -h lists the flags", flags.Arg(0)))
	}
	wrong = append(wrong, c.readSecrets(flags, given)...)
	for _, s := range settings {
		value := given[s.name]
		if value == "" {
			value = s.fallback
		}
		if value == "" {
			continue
		}
		if err := s.set(value); err != nil {
			wrong = append(wrong, fmt.Errorf("%s %w", s.name, err))
		}
	}
	return c, given, wrong
}
