package koalahttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/tidegate/tidegate/internal/dialects/koala"
	"github.com/tidegate/tidegate/internal/strictjson"
)

// koalaJobResult has the id under both names: Koala writes one, its client for PHP reads the other. A job that cannot be
// decided has an error instead of a result; the other jobs have their results.
type koalaJobResult struct {
	ID     string        `json:"ID"`
	Same   string        `json:"Id"`
	Result *koala.Result `json:"Result,omitempty"`
	Number int           `json:"err_no,omitempty"`
	Text   string        `json:"err_msg,omitempty"`
}

func (h *Handlers) koalaMulti(ctx context.Context, params koala.Params) (any, error) {
	asked, err := parseJobs(params["argsJson"])
	if err != nil {
		return nil, invalid(`argsJson must be like [{"Id":"1","Arg":"act=ask&uid=7"}]: ` + err.Error())
	}
	var (
		answers  = make([]koalaJobResult, len(asked))
		requests []koala.Params
		places   []int
	)
	for i, one := range asked {
		answers[i] = koalaJobResult{ID: one.ID, Same: one.ID}
		params, err := parseArg(*one.Arg)
		if err != nil {
			answers[i].Number, answers[i].Text = -1, err.Error()
			continue
		}
		requests, places = append(requests, params), append(places, i)
	}
	found, err := h.service.BrowseAll(ctx, requests)
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

type job struct {
	ID  string
	Arg *string
}

// parseJobs decodes jobs. A misspelled name is an error: a request without parameters would match no rule, and be admitted.
func parseJobs(text string) (jobs []job, err error) {
	if err := strictjson.CheckText([]byte(text)); err != nil { // otherwise values that differ only in invalid characters would be equal
		return nil, err
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&jobs); err != nil {
		return nil, err
	}
	if decoder.More() {
		return nil, errors.New("nothing may follow the list")
	}
	for i := range jobs {
		if jobs[i].Arg == nil {
			return nil, fmt.Errorf("job %d has no Arg", i+1)
		}
	}
	return jobs, nil
}

// parseArg parses the parameters of a job, which Koala's client for PHP encodes twice. Parameters for the service are refused:
// a job only browses.
func parseArg(arg string) (koala.Params, error) {
	if !strings.Contains(arg, "=") {
		once, err := url.QueryUnescape(arg)
		if err != nil {
			return nil, invalid("Arg must be like act=ask&uid=7: " + err.Error())
		}
		if arg = once; arg != "" && !strings.Contains(arg, "=") {
			return nil, invalid("Arg must be like act=ask&uid=7, got " + strconv.Quote(arg))
		}
	}
	params, err := parseParams(arg)
	if err == nil {
		err = refuseUnknown(params)
	}
	return params, err
}
