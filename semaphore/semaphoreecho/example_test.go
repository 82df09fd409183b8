package semaphoreecho_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/semaphore"
	"github.com/tidegate/tidegate/semaphore/semaphoreecho"
)

// No more than two reports are written at the same time, by however many processes.
func ExampleLimit() {
	server, err := miniredis.Run() // in production, Redis
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	reports, err := semaphore.New(rdb, "report", semaphore.Options{Limit: 2})
	if err != nil {
		panic(err)
	}
	running, stop := context.WithCancel(context.Background())
	defer stop()
	go reports.Run(running) //nolint:errcheck // it returns nil when running ends

	e := echo.New()
	e.GET("/report.csv", func(c echo.Context) error {
		ctx := c.Request().Context() // ends when the client hangs up, and when the permit is lost
		c.Response().Header().Set("Content-Type", "text/csv")
		return write(ctx, c.Response(), semaphoreecho.PermitOf(ctx).Token())
	}, semaphoreecho.Limit(reports, 5*time.Second))

	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest("GET", "/report.csv", nil))
	fmt.Println(w.Code, w.Body)
	// Output: 200 written under a token: true
}

// A request takes a permit of its tenant and one of all together, or neither.
func ExampleLimitWith() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()
	set, err := semaphore.NewSet(rdb, semaphore.SetOptions{Lookup: func(_ context.Context, name string) (semaphore.Definition, error) {
		if name == "report" {
			return semaphore.Definition{Limit: 10}, nil
		}
		return semaphore.Definition{Limit: 2}, nil // each tenant
	}})
	if err != nil {
		panic(err)
	}
	running, stop := context.WithCancel(context.Background())
	defer stop()
	go set.Run(running) //nolint:errcheck // it returns nil when running ends
	reports, err := set.Semaphore("report")
	if err != nil {
		panic(err)
	}

	e := echo.New()
	e.GET("/tenants/:tenant/report", func(c echo.Context) error { return c.String(http.StatusOK, "done") },
		semaphoreecho.LimitWith(reports, semaphoreecho.Config{
			Wait: 5 * time.Second,
			Request: func(c echo.Context) (semaphore.Request, error) {
				return semaphore.Request{Also: []string{"tenant-" + c.Param("tenant")}, Holder: c.RealIP()}, nil
			},
		}))
	e.Logger.Fatal(e.Start(":8080"))
}

func write(ctx context.Context, w http.ResponseWriter, token int64) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_, err := fmt.Fprintf(w, "written under a token: %t\n", token > 0)
	return err
}
