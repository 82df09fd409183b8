package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/dashboard"
	"github.com/tidegate/tidegate/internal/httpapi/jsontime"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/orders"
)

// Live is what the page shows besides the data of the API.
type Live struct {
	Recorder   *dashboard.Recorder
	RoundTrips func() uint64   // how often decisions waited for Redis; nil: unknown
	Degraded   func() []string // further degraded parts; nil: none
}

// Paths of the page.
const (
	pagePath   = "/"
	assetsPath = "/assets/"
	eventsPath = "/events"
)

// Maximum number of entries that are read per kind; the page shows fewer.
const (
	mostBans = 100
	mostDead = 21
)

// page registers the page and its assets.
func (a *API) page(docs huma.API) {
	described := docs.OpenAPI()
	a.signIn(docs)
	var semaphores func(context.Context) ([]dashboard.Semaphore, error)
	if a.semaphores != nil {
		semaphores = a.permitRoutes.ForPage
	}
	a.feed = dashboard.NewFeed(a.live.Recorder, dashboard.Sources{
		Process: a.liveProcess, Health: a.liveHealth, Sales: a.liveSales, Queue: a.liveQueue, Bans: a.liveBans, Semaphores: semaphores,
		Rules: a.liveRules(), Committed: a.orders.Committed, RoundTrips: a.live.RoundTrips,
	}, a.log)
	a.internal.GET(pagePath, echo.WrapHandler(dashboard.Page(a.version)))
	a.internal.GET(assetsPath+"*", echo.WrapHandler(http.StripPrefix(assetsPath, dashboard.Assets())))
	a.internal.GET(eventsPath, echo.WrapHandler(a.feed.Stream(a.leaving.Done(), a.mayStay)), needs(auth.ForViewers))
	for path, kind := range map[string]string{pagePath: "text/html", eventsPath: "text/event-stream"} {
		described.AddOperation(&huma.Operation{
			OperationID: map[string]string{pagePath: "page", eventsPath: "events"}[path], Method: http.MethodGet, Path: path,
			Summary: map[string]string{pagePath: "The live page", eventsPath: "Its stream: history, then a frame a second"}[path], Tags: operating,
			Responses: refusals(&huma.Response{Description: "OK", Content: map[string]*huma.MediaType{kind: {}}}, 401, 403),
		})
	}
}

// mayStay reports whether a caller that was admitted would be admitted again.
func (a *API) mayStay(r *http.Request) bool { return a.guard.Holds(r, request.Of(r.Context()).Grant) }

// RunLive makes the frames of the page until ctx ends, and then returns nil.
func (a *API) RunLive(ctx context.Context) error {
	if a.feed == nil {
		<-ctx.Done()
		return nil
	}
	return a.feed.Run(ctx)
}

// Answered records for the page how the rules decided a request, or how an order ended.
func (a *API) Answered(err error, rule string, asked func() admission.Request) {
	if a.live == nil {
		return
	}
	answer := dashboard.Admitted
	if err != nil {
		p := problem.Of(err)
		if answer = p.Reason; rule == "" {
			rule = p.Rule
		}
	}
	a.live.Recorder.Answered(answer, rule, asked)
}

func (a *API) liveProcess() dashboard.Process {
	s := a.gate.Stats()
	p := dashboard.Process{
		Version: a.version, Rules: s.Version, Processes: max(1, s.Processes), Degraded: []string{},
	}
	if s.Degraded {
		p.Degraded = append(p.Degraded, "Redis does not answer decisions")
	}
	if s.Uncleaned() {
		p.Degraded = append(p.Degraded, "a shard of the counts is not cleaned in time")
	}
	for i := range s.Memory {
		m := &s.Memory[i]
		p.Shards = append(p.Shards, dashboard.Shard{Subjects: m.Subjects, Reclaimed: m.Reclaimed, Evicted: m.Evicted, CleanedMS: m.Cleaned.Milliseconds(), Late: m.Late})
	}
	if s.RulesFailed {
		p.Degraded = append(p.Degraded, "the rules file has a change that is wrong")
	}
	if demo := a.demoSecrets(); len(demo) > 0 {
		p.Degraded = append(p.Degraded, "everybody knows the secrets of "+strings.Join(demo, ", "))
	}
	if a.live.Degraded != nil {
		p.Degraded = append(p.Degraded, a.live.Degraded()...)
	}
	return p
}

func (a *API) liveHealth(ctx context.Context) ([]string, error) {
	if err := a.ready(ctx); err != nil {
		return failing(err), nil
	}
	return nil, nil
}

// liveRules returns the names of the rules in force. They are computed once per version of the rules.
func (a *API) liveRules() func() []string {
	var (
		of    *admission.Rules
		names []string
	)
	return func() []string {
		rules := a.gate.Rules()
		if rules == of {
			return names
		}
		of, names = rules, nil
		view, err := a.viewRules(rules)
		if err != nil {
			return nil
		}
		for _, rule := range view.Body.Rules {
			if name, ok := rule["name"].(string); ok {
				names = append(names, name)
			}
		}
		return names
	}
}

func (a *API) liveSales(ctx context.Context) ([]dashboard.Sale, error) {
	all, err := a.orders.Sales(ctx, "", 0)
	if err != nil {
		return nil, err
	}
	sales := make([]dashboard.Sale, len(all))
	for i, s := range all {
		sales[i] = dashboard.Sale{
			Sale: s.ID, State: string(s.State), Draft: s.State == orders.StateScheduled && s.Switch == orders.SwitchDraft,
			StartsAt: jsontime.Instant(s.StartsAt), EndsAt: jsontime.Instant(s.EndsAt), Items: make([]dashboard.Item, len(s.Items)),
		}
		for j, it := range s.Items {
			sales[i].Items[j] = dashboard.Item{Item: it.ID, Stock: it.Stock}
			if free, known := s.Free[it.ID]; known {
				sales[i].Items[j].Free = &free
			}
		}
	}
	return sales, nil
}

func (a *API) liveQueue(ctx context.Context) (dashboard.Queue, error) {
	q := dashboard.Queue{Dead: []dashboard.Dead{}}
	backlog, err := a.orders.Backlog(ctx)
	if err != nil {
		return q, err
	}
	q.Waiting, q.OldestMS = backlog.Orders, backlog.Oldest.Milliseconds()
	if q.InWork, err = a.orders.InWork(ctx); err != nil {
		return q, err
	}
	letters, err := a.orders.DeadLetters(ctx, orders.ID{}, mostDead)
	for i := range letters {
		r := &letters[i].Reservation
		q.Dead = append(q.Dead, dashboard.Dead{OrderID: r.ID.String(), Sale: r.Sale, Item: r.Item, Reason: letters[i].Reason})
	}
	return q, err
}

func (a *API) liveBans(context.Context) (dashboard.Bans, error) {
	all := a.gate.Bans()
	slices.SortFunc(all, func(x, y bans.Ban) int {
		return cmp.Or(y.Until.Compare(x.Until), strings.Compare(x.Value, y.Value))
	})
	bans := dashboard.Bans{Count: len(all), Bans: []dashboard.Ban{}}
	for i := range all[:min(len(all), mostBans)] {
		b := &all[i]
		bans.Bans = append(bans.Bans, dashboard.Ban{Kind: string(b.Kind), Value: b.Value, Reason: b.Reason, Rule: b.Rule, Since: jsontime.Instant(b.Since), Until: jsontime.Instant(b.Until)})
	}
	return bans, nil
}
