package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/koala"
)

// Koala decides by a rule file of Koala's, as a *koala.Service does.
type Koala interface {
	Browse(ctx context.Context, params koala.Params, write bool) (koala.Result, error)
	BrowseComplete(ctx context.Context, params koala.Params, write bool) ([]koala.Result, error)
	BrowseAll(ctx context.Context, jobs []koala.Job) ([]koala.Answer, error)
	Update(ctx context.Context, params koala.Params) error
	Feedback(ctx context.Context, params koala.Params, erase int) error
	Value(ctx context.Context, params koala.Params, code int) (int, error)
	Today() (date string, rules []koala.Tally)
	Policy() koala.Dump
	Alive(ctx context.Context) error
	Reload() error
}

// koalaPath is where Koala's endpoints begin.
const koalaPath = "/koala"

// koalaEndpoint is one of Koala's.
type koalaEndpoint struct {
	path, summary string
	role          Role
	answer        func(a *API, ctx context.Context, params koala.Params) (any, error)

	request bool          // it takes the parameters that rules ask for
	own     []*huma.Param // those that it takes itself
	answers any           // of the type of what 200 has
	failed  any           // what 500 has
}

var (
	koalaWrite = koalaParameter("_writeThrough", "yes: count it too, at the same instant, if it is let in", false, "yes", "no")
	koalaErase = koalaParameter("_feedbackType", "How many units: as erase1 or erase2 of each rule says; erase1 if it is missing", false, "erase1", "erase2")
	koalaRule  = koalaParameter("rule_no", "Return number of a rule", true)
	koalaOne   = koalaParameter("rule_no", "Return number of a rule, for no other", false)
	koalaArgs  = koalaParameter("argsJson", `Such as [{"Id":"1","Arg":"act=ask&uid=7"}]`, true)

	koalaAway = koalaError{Number: -1, Text: "system error!"}

	koalaEndpoints = []koalaEndpoint{
		{
			"/rule/browse", "The first rule that the request is too much for; with _writeThrough=yes it is counted at once, if there is none",
			RoleAdmit, (*API).koalaBrowse, true,
			[]*huma.Param{koalaWrite},
			koala.Result{},
			koalaAway,
		},
		{
			"/rule/browse_complete", "All rules that the request is too much for",
			RoleAdmit, (*API).koalaBrowseComplete, true,
			[]*huma.Param{koalaWrite},
			[]koala.Result{},
			koalaAway,
		},
		{"/rule/update", "Count the request in all rules that match it", RoleAdmit, (*API).koalaUpdate, true, nil, koalaError{}, koalaAway},
		{
			"/rule/feedback", "Take back units of leak rules, as many as _feedbackType=erase1 or erase2 of each says",
			RoleAdmit, (*API).koalaFeedback, true,
			[]*huma.Param{koalaErase},
			koalaError{},
			koalaAway,
		},
		{
			"/rule/value", "How much the rule of rule_no has counted for the request",
			RoleAdmit, (*API).koalaValue, true,
			[]*huma.Param{koalaRule},
			koalaValueAnswer{},
			koalaAway,
		},
		{"/multi/browse", "Browse several requests", RoleAdmit, (*API).koalaMulti, false, []*huma.Param{koalaArgs}, []koalaJobResult{}, koalaAway},
		{
			"/dump/counter", "How often each rule let pass and answered today, in this process",
			RoleOperator, (*API).koalaCounters, false,
			[]*huma.Param{koalaOne},
			koalaToday{},
			nil,
		},
		{"/dump/policy", "The rules in force", RoleOperator, (*API).koalaPolicy, false, nil, koala.Dump{}, nil},
		{"/monitor/alive", "Whether Redis answers", RoleAdmit, (*API).koalaAlive, false, nil, koalaLiving{}, koalaLiving{-1, "redis-error!"}},
	}
)

// koalas registers Koala's endpoints past Huma, which would describe errors in another form than theirs.
func (a *API) koalas(described *huma.OpenAPI) {
	for _, e := range koalaEndpoints {
		a.internal.GET(koalaPath+e.path, a.serveKoala(e), needs(e.role))
		described.AddOperation(e.describe(described.Components.Schemas))
	}
}

// koalaError is a body of Koala's that says what was wrong, and its status.
type koalaError struct {
	status int
	Number int    `json:"err_no"`
	Text   string `json:"err_msg"`
}

func (e *koalaError) Error() string { return e.Text }

func koalaInvalid(text string) error { return &koalaError{http.StatusBadRequest, -1, text} }

var koalaOK = koalaError{Text: "OK"}

func (a *API) serveKoala(e koalaEndpoint) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx := c.Request().Context()
		params, err := koalaParams(c.Request().URL.RawQuery)
		if err == nil {
			err = e.knows(params)
		}
		var answer any
		if err == nil {
			answer, err = e.answer(a, ctx, params)
		}
		status, body := http.StatusOK, []byte(nil)
		if err == nil {
			body, err = koalaJSON(answer)
		}
		if err != nil {
			status, body = a.koalaFailed(ctx, e, err)
		}
		if a.log.Enabled(ctx, slog.LevelDebug) { // as Koala's access log; it names people
			a.log.LogAttrs(ctx, slog.LevelDebug, "koala", slog.String("request_id", requestOf(ctx).id), slog.String("path", e.path),
				slog.Any("params", params), slog.Int("status", status), slog.String("body", string(body)))
		}
		c.Response().Header().Set("Cache-Control", "no-store")
		return c.Blob(status, echo.MIMEApplicationJSON, body)
	}
}

// koalaJSON writes < and & as they are: clients show the texts to people.
func koalaJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// koalaFailed is what Koala answers instead of a result.
func (a *API) koalaFailed(ctx context.Context, e koalaEndpoint, err error) (status int, body []byte) {
	var told *koalaError
	switch {
	case errors.As(err, &told):
	case errors.Is(err, koala.ErrInvalid):
		told = &koalaError{http.StatusBadRequest, -1, err.Error()}
	case errors.Is(err, koala.ErrUnknownRule):
		told = &koalaError{http.StatusBadRequest, -2, "unknown rule_no!"}
	default:
		r := requestOf(ctx)
		a.log.LogAttrs(ctx, slog.LevelError, "request failed", slog.String("request_id", r.id), slog.String("path", koalaPath+e.path), slog.Any("error", err))
		failed := e.failed
		if failed == nil {
			failed = koalaAway
		}
		return http.StatusInternalServerError, koalaText(failed)
	}
	return told.status, koalaText(told)
}

// koalaText is koalaJSON of numbers and texts, which cannot fail.
func koalaText(v any) []byte {
	body, err := koalaJSON(v)
	if err != nil {
		panic(err)
	}
	return body
}

// knows refuses a parameter that is for the service and that it does not know: who writes _writeTrough=yes would never be limited.
func (e *koalaEndpoint) knows(params koala.Params) error {
	for name := range params {
		if strings.HasPrefix(name, "_") && !slices.ContainsFunc(e.own, func(p *huma.Param) bool { return p.Name == name }) {
			return koalaInvalid("there is no parameter " + strconv.Quote(name) + " here")
		}
	}
	return nil
}

// koalaParams reads a query. A name that comes twice would be counted by one value and matched by another.
func koalaParams(query string) (koala.Params, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, koalaInvalid("the parameters should be such as act=ask&uid=7, with % for what is no letter or digit: " + err.Error())
	}
	params := make(koala.Params, len(values))
	for name, all := range values {
		if len(all) > 1 {
			return nil, koalaInvalid("the parameter " + strconv.Quote(name) + " comes twice")
		}
		params[name] = all[0]
	}
	return params, nil
}

// take takes a parameter out that is not for rules.
func take(params koala.Params, name string) string {
	value := params[name]
	delete(params, name)
	return value
}

func writesThrough(params koala.Params) (bool, error) {
	switch v := take(params, "_writeThrough"); v {
	case "yes":
		return true, nil
	case "", "no":
		return false, nil
	default:
		return false, koalaInvalid("_writeThrough is " + strconv.Quote(v) + ", should be yes or no")
	}
}

func (a *API) koalaBrowse(ctx context.Context, params koala.Params) (any, error) {
	write, err := writesThrough(params)
	if err != nil {
		return nil, err
	}
	return a.koala.Browse(ctx, params, write)
}

func (a *API) koalaBrowseComplete(ctx context.Context, params koala.Params) (any, error) {
	write, err := writesThrough(params)
	if err != nil {
		return nil, err
	}
	return a.koala.BrowseComplete(ctx, params, write)
}

func (a *API) koalaUpdate(ctx context.Context, params koala.Params) (any, error) {
	return koalaOK, a.koala.Update(ctx, params)
}

func (a *API) koalaFeedback(ctx context.Context, params koala.Params) (any, error) {
	switch kind := take(params, "_feedbackType"); kind {
	case "", "erase1":
		return koalaOK, a.koala.Feedback(ctx, params, koala.Erase1)
	case "erase2":
		return koalaOK, a.koala.Feedback(ctx, params, koala.Erase2)
	default:
		return nil, koalaInvalid("_feedbackType is " + strconv.Quote(kind) + ", should be erase1 or erase2")
	}
}

func (a *API) koalaValue(ctx context.Context, params koala.Params) (any, error) {
	number, err := ruleNumber(params)
	if err != nil {
		return nil, err
	}
	value, err := a.koala.Value(ctx, params, number)
	return koalaValueAnswer{Value: value}, err
}

type koalaValueAnswer struct {
	Number int    `json:"err_no"`
	Text   string `json:"err_msg"`
	Value  int    `json:"cache_val"`
}

// ruleNumber is the return number that a request names; 0 is none.
func ruleNumber(params koala.Params) (int, error) {
	text := take(params, "rule_no")
	if text == "" {
		return 0, nil
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 {
		return 0, koalaInvalid("rule_no is " + strconv.Quote(text) + ", should be the return number of a rule")
	}
	return number, nil
}

func (a *API) koalaCounters(_ context.Context, params koala.Params) (any, error) {
	number, err := ruleNumber(params)
	if err != nil {
		return nil, err
	}
	var today koalaToday
	today.Date, today.Counters = a.koala.Today()
	if number != 0 {
		if !slices.ContainsFunc(a.koala.Policy().Rules, func(r koala.DumpedRule) bool { return r.Rule == number }) {
			return nil, koala.ErrUnknownRule
		}
		one := koala.Tally{Rule: number} // of which nothing is known today
		for _, t := range today.Counters {
			if t.Rule == number {
				one = t
			}
		}
		today.Counters = []koala.Tally{one}
	}
	return today, nil
}

type koalaToday struct {
	Date     string        `json:"date"`
	Counters []koala.Tally `json:"counters"`
}

func (a *API) koalaPolicy(context.Context, koala.Params) (any, error) { return a.koala.Policy(), nil }

func (a *API) koalaAlive(ctx context.Context, _ koala.Params) (any, error) {
	return koalaLiving{Text: "OK!"}, a.koala.Alive(ctx)
}

type koalaLiving struct {
	Number int    `json:"errno"`
	Text   string `json:"errmsg"`
}

// koalaJobResult has the id under both names: Koala writes the one, its client for PHP reads the other. A job that nothing can be made of
// has an error in place of a result, and the others have theirs.
type koalaJobResult struct {
	ID     string        `json:"ID"`
	Same   string        `json:"Id"`
	Result *koala.Result `json:"Result,omitempty"`
	Number int           `json:"err_no,omitempty"`
	Text   string        `json:"err_msg,omitempty"`
}

func (a *API) koalaMulti(ctx context.Context, params koala.Params) (any, error) {
	asked, err := koalaJobs(params["argsJson"])
	if err != nil {
		return nil, koalaInvalid(`argsJson should be such as [{"Id":"1","Arg":"act=ask&uid=7"}]: ` + err.Error())
	}
	var (
		answers = make([]koalaJobResult, len(asked))
		jobs    []koala.Job
		places  []int
	)
	for i, one := range asked {
		answers[i] = koalaJobResult{ID: one.ID, Same: one.ID}
		params, err := koalaArg(*one.Arg)
		if err != nil {
			answers[i].Number, answers[i].Text = -1, err.Error()
			continue
		}
		jobs, places = append(jobs, koala.Job{ID: one.ID, Params: params}), append(places, i)
	}
	found, err := a.koala.BrowseAll(ctx, jobs)
	if err != nil {
		return nil, err
	}
	for i, answer := range found {
		to := &answers[places[i]]
		if answer.Err != nil {
			to.Number, to.Text = -1, answer.Err.Error()
		} else {
			to.Result = &found[i].Result
		}
	}
	return answers, nil
}

type koalaJob struct {
	ID  string
	Arg *string
}

// koalaJobs reads jobs. A name that is misspelled is an error: a request without parameters fits no rule, and would be let in.
func koalaJobs(text string) (jobs []koalaJob, err error) {
	if err := wellWritten([]byte(text)); err != nil { // or values that differ in what is no character would be one
		return nil, err
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&jobs); err != nil {
		return nil, err
	}
	if decoder.More() {
		return nil, errors.New("something follows the list")
	}
	for i := range jobs {
		if jobs[i].Arg == nil {
			return nil, fmt.Errorf("job %d has no Arg", i+1)
		}
	}
	return jobs, nil
}

// koalaArg reads the parameters of a job, which Koala's client for PHP encodes twice.
func koalaArg(arg string) (koala.Params, error) {
	if !strings.Contains(arg, "=") {
		once, err := url.QueryUnescape(arg)
		if err != nil {
			return nil, koalaInvalid("Arg should be such as act=ask&uid=7: " + err.Error())
		}
		if arg = once; arg != "" && !strings.Contains(arg, "=") {
			return nil, koalaInvalid("Arg is " + strconv.Quote(arg) + ", should be such as act=ask&uid=7")
		}
	}
	return koalaParams(arg)
}
