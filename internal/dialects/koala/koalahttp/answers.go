package koalahttp

import (
	"context"
	"slices"
	"strconv"

	"github.com/tidegate/tidegate/internal/dialects/koala"
)

// take removes and returns a parameter that is not for rules.
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
		return false, invalid("_writeThrough must be yes or no, got " + strconv.Quote(v))
	}
}

func (h *Handlers) koalaBrowse(ctx context.Context, params koala.Params) (any, error) {
	write, err := writesThrough(params)
	if err != nil {
		return nil, err
	}
	return h.service.Browse(ctx, params, write)
}

func (h *Handlers) koalaBrowseComplete(ctx context.Context, params koala.Params) (any, error) {
	write, err := writesThrough(params)
	if err != nil {
		return nil, err
	}
	return h.service.BrowseComplete(ctx, params, write)
}

func (h *Handlers) koalaUpdate(ctx context.Context, params koala.Params) (any, error) {
	return ok, h.service.Update(ctx, params)
}

func (h *Handlers) koalaFeedback(ctx context.Context, params koala.Params) (any, error) {
	switch kind := take(params, "_feedbackType"); kind {
	case "", "erase1":
		return ok, h.service.Feedback(ctx, params, koala.Erase1)
	case "erase2":
		return ok, h.service.Feedback(ctx, params, koala.Erase2)
	default:
		return nil, invalid("_feedbackType must be erase1 or erase2, got " + strconv.Quote(kind))
	}
}

func (h *Handlers) koalaValue(ctx context.Context, params koala.Params) (any, error) {
	number, err := ruleNumber(params)
	if err != nil {
		return nil, err
	}
	value, err := h.service.Value(ctx, params, number)
	return koalaValueAnswer{Value: value}, err
}

type koalaValueAnswer struct {
	Number int    `json:"err_no"`
	Text   string `json:"err_msg"`
	Value  int    `json:"cache_val"`
}

// ruleNumber returns the return number in a request; 0: none.
func ruleNumber(params koala.Params) (int, error) {
	text := take(params, "rule_no")
	if text == "" {
		return 0, nil
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 {
		return 0, invalid("rule_no must be the return number of a rule, got " + strconv.Quote(text))
	}
	return number, nil
}

func (h *Handlers) koalaCounters(_ context.Context, params koala.Params) (any, error) {
	number, err := ruleNumber(params)
	if err != nil {
		return nil, err
	}
	var today koalaToday
	today.Date, today.Counters = h.service.Today()
	if number != 0 {
		if !slices.ContainsFunc(h.service.Policy().Rules, func(r koala.DumpedRule) bool { return r.Rule == number }) {
			return nil, koala.ErrUnknownRule
		}
		one := koala.Tally{Rule: number} // without counts today
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

func (h *Handlers) koalaPolicy(context.Context, koala.Params) (any, error) {
	return h.service.Policy(), nil
}

func (h *Handlers) koalaAlive(ctx context.Context, _ koala.Params) (any, error) {
	return koalaLiving{Text: "OK!"}, h.service.Alive(ctx)
}

type koalaLiving struct {
	Number int    `json:"errno"`
	Text   string `json:"errmsg"`
}
