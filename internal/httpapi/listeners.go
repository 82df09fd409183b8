package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/rooms"
	"github.com/tidegate/tidegate/internal/strictjson"
)

func (a *API) echo(steps ...echo.MiddlewareFunc) *echo.Echo {
	e := echo.New()
	e.HTTPErrorHandler = func(err error, c echo.Context) { a.errors.Fail(c, err) }
	e.Use(chain(steps))
	return e
}

// chain joins steps that end with the handler of the route, once; Echo would for each request. What is added with Use later does not run.
func chain(steps []echo.MiddlewareFunc) echo.MiddlewareFunc {
	joined := func(c echo.Context) error { return c.Handler()(c) }
	for _, step := range slices.Backward(steps) {
		joined = step(joined)
	}
	return func(echo.HandlerFunc) echo.HandlerFunc { return joined }
}

// huma registers operations on e. The API uses only JSON; package apidocs serves the documentation.
func (a *API) huma(e *echo.Echo, title string, security map[string]*huma.SecurityScheme) huma.API {
	var anyOf []map[string][]string
	for name := range security {
		anyOf = append(anyOf, map[string][]string{name: {}})
	}
	return humaecho.New(e, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI:    "3.1.0",
			Info:       &huma.Info{Title: title, Version: a.cfg.Version},
			Components: &huma.Components{Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer), SecuritySchemes: security},
			Security:   anyOf,
		},
		Formats:       map[string]huma.Format{"application/json": strictjson.Format, "json": strictjson.Format},
		DefaultFormat: "application/json",
		Transformers: []huma.Transformer{func(ctx huma.Context, _ string, v any) (any, error) {
			if p, ok := v.(*problem.Problem); ok {
				a.errors.Finish(ctx.Context(), p)
			}
			return v, nil
		}},
	})
}

func userSecurity(id auth.Identity) map[string]*huma.SecurityScheme {
	if _, ok := id.(*auth.JWT); !ok {
		return nil // the proxy in front authenticates users
	}
	return map[string]*huma.SecurityScheme{"user": {
		Type: "http", Scheme: "bearer", BearerFormat: "JWT",
		Description: "An invalid token gets 401 with WWW-Authenticate: Bearer error=\"invalid_token\"",
	}}
}

func tokenSecurity(t *auth.Tokens) map[string]*huma.SecurityScheme {
	if t == nil {
		return nil
	}
	return map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer"},
		"basic":  {Type: "http", Scheme: "basic", Description: "The token is the password. Only at /v1/authz and below /koala."},
		"header": {Type: "apiKey", In: "header", Name: "X-Tidegate-Token"},
		"cookie": {Type: "apiKey", In: "cookie", Name: auth.SessionCookie, Description: "The page's session, from POST /session."},
	}
}

// segments decodes the parameters of the path, and refuses empty ones, so that "/v1/orders/" is not an order without an id.
// Echo decodes all of them if the path is in Go's canonical encoding, and none otherwise, for example with "%2F".
func segments(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		names, values := c.ParamNames(), c.ParamValues()
		for i, v := range values {
			if v == "" && names[i] != "*" {
				return echo.ErrNotFound
			}
			if c.Request().URL.RawPath != "" && names[i] != "*" {
				decoded, err := url.PathUnescape(v)
				if err != nil {
					return echo.ErrNotFound
				}
				values[i] = decoded
			}
		}
		return next(c)
	}
}

func corsOrigins(origins []string) ([]string, error) {
	for _, o := range origins {
		if o == "*" {
			continue
		}
		u, err := url.Parse(o)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Scheme+"://"+u.Host != o {
			return nil, fmt.Errorf("httpapi: origin must be like https://shop.example, or *, got %q", o)
		}
	}
	return slices.Clone(origins), nil
}

func cors(origins, headers []string) echo.MiddlewareFunc {
	return middleware.CORSWithConfig(middleware.CORSConfig{
		AllowOrigins: origins,
		AllowMethods: []string{http.MethodGet, http.MethodPost, http.MethodDelete},
		AllowHeaders: append([]string{
			"Authorization", "Content-Type", "Idempotency-Key", "X-Captcha", rooms.TokenField, "X-Request-Id",
			"traceparent", "tracestate", "baggage", // of tracing in the page
		}, headers...),
		// Cookies of a proxy may say who the user is. Pages of every origin must not act for him.
		AllowCredentials: !slices.Contains(origins, "*"),
		ExposeHeaders:    []string{"Location", "Retry-After", "RateLimit", "RateLimit-Policy", "Idempotency-Replayed", "X-Request-Id"},
		MaxAge:           600,
	})
}

// impersonal takes what is the caller's own out of answers that caches keep for others.
func impersonal(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if answer := c.Response(); c.Request().Method == http.MethodGet {
			answer.Before(func() {
				if h := answer.Header(); strings.HasPrefix(h.Get("Cache-Control"), "max-age") {
					for _, name := range []string{"Ratelimit", "Ratelimit-Policy", "X-Request-Id"} {
						h.Del(name)
					}
				}
			})
		}
		return next(c)
	}
}
