package login

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/internal/netaddr"
	"github.com/tidegate/tidegate/login"
)

// History lists what rules did about failed logins.
type History interface {
	// List returns up to limit events of a reference to a name, or of all if that is empty, the newest first: those after the one with the
	// ID after, or from the newest if that is empty.
	List(ctx context.Context, reference, after string, limit int) ([]login.Event, error)
	// BannedFor returns the factors whose failures got addresses banned that look like ip when masked.
	BannedFor(ctx context.Context, ip string) ([]string, error)
}

type subjectInput struct {
	Name   string `query:"name" maxLength:"256" doc:"As it was typed"`
	IP     string `query:"ip" maxLength:"255"`
	Factor string `query:"factor" default:"password" pattern:"^[a-z0-9_-]{1,32}$" patternDescription:"1 to 32 of a-z 0-9 _ -"`

	reference string // to the name, for the audit log
}

// AuditDetail names no user: the name that was typed may be a password.
func (in *subjectInput) AuditDetail() any {
	return map[string]string{"reference": in.reference, "ip": input.Shortened(in.IP), "factor": in.Factor}
}

func (in *subjectInput) subject() (s login.Subject, err error) {
	s = login.Subject{Name: in.Name, Factor: in.Factor}
	switch {
	case in.IP != "":
		s.IP, err = request.ParseAddress(in.IP, "query.ip")
	case in.Name == "":
		err = problem.InvalidAt("query.name", "is required without ip")
	}
	return s, err
}

// loginStandingView is a login.RuleState in a response. The API description has a schema of this name.
type loginStandingView struct {
	_ struct{} `additionalProperties:"true"`

	Rule     string       `json:"rule"`
	Count    login.Count  `json:"count" enum:"name,name_ip,ip,names_per_ip,network,device" doc:"What is counted"`
	Limit    int          `json:"limit" doc:"The rule acts from so many failures on"`
	WindowMS int64        `json:"window_ms" doc:"In which they lie; 0: in a row"`
	Action   login.Action `json:"action" enum:"challenge,delay,deny,ban,revoke"`
	Shadow   bool         `json:"shadow" doc:"The rule only reports"`
	Failed   int          `json:"failed" doc:"Failures that count now"`
	InFlight int          `json:"in_flight" doc:"Attempts whose outcome is not known yet"`
	Active   bool         `json:"active" doc:"The rule acts now. Of a ban see banned"`
	Since    *time.Time   `json:"since" doc:"Of an active rule that counts the name; null: unknown"`
	Until    *time.Time   `json:"until" doc:"null: the rule does not act, or it acts as long as the failures stand"`
	Times    int          `json:"times" doc:"Penalties in a row; of a rule without a window failures in a row"`
}

type loginBanView struct {
	_ struct{} `additionalProperties:"true"`

	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
	Rule   string    `json:"rule,omitempty" doc:"The rule that banned"`
	Reason string    `json:"reason,omitempty" doc:"An operator's words"`
}

type subjectOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		_ struct{} `additionalProperties:"true"`

		Items     []loginStandingView `json:"items"`
		Reference string              `json:"reference,omitempty" doc:"What stands for the name in /v1/login/history"`
		Banned    *loginBanView       `json:"banned,omitempty" doc:"The ban that keeps the name or the address out"`
	} `nameHint:"LoginSubject"`
}

// LoginSubject returns why, since when and until when logins of a name or address are refused.
func (h *Handlers) LoginSubject(ctx context.Context, in *subjectInput) (*subjectOutput, error) {
	s, err := in.subject()
	if err != nil {
		return nil, err
	}
	states, err := h.Login.RuleStates(ctx, s)
	if err != nil {
		return nil, nameAt("query.name", err)
	}
	out := &subjectOutput{CacheControl: "no-store"}
	out.Body.Items = make([]loginStandingView, len(states))
	var events []login.Event
	if s.Name != "" {
		if out.Body.Reference, err = h.Login.Reference(s.Name); err != nil {
			return nil, nameAt("query.name", err)
		}
		events = h.loginEvents(ctx, out.Body.Reference)
	}
	for i := range states {
		st := &states[i]
		view := loginStandingView{
			Rule: st.Rule, Count: st.Count, Limit: st.Limit, WindowMS: st.Window.Milliseconds(), Action: st.Action, Shadow: st.Shadow,
			Failed: st.Failed, InFlight: st.InFlight, Active: st.Active, Until: response.InstantOrNull(st.Until), Times: st.Times,
		}
		if st.Active {
			view.Since = response.InstantOrNull(since(events, st, &s))
		}
		out.Body.Items[i] = view
	}
	if ban, _, ok := h.Login.Banned(s); ok {
		out.Body.Banned = &loginBanView{
			Since: response.Instant(ban.Since), Until: response.Instant(ban.Until), Rule: ban.Rule,
			Reason: ban.Reason,
		}
	}
	return out, nil
}

const (
	recentEvents  = 100 // of a name, in which the start of a penalty is looked up
	historyWithin = time.Second
)

// loginEvents returns the newest events of a name. While the database is unreachable it returns none, so that the other data is
// still returned.
func (h *Handlers) loginEvents(ctx context.Context, reference string) []login.Event {
	if h.History == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, historyWithin)
	defer cancel()
	events, err := h.History.List(ctx, reference, "", recentEvents)
	if err != nil {
		return nil
	}
	return events
}

// since returns when the current penalty of a name began, or zero. events are the newest first.
func since(events []login.Event, st *login.RuleState, s *login.Subject) time.Time {
	i := slices.IndexFunc(events, func(e login.Event) bool {
		return e.Rule == st.Rule && e.Factor == s.Factor &&
			(st.Count == login.CountName || st.Count == login.CountNameIP && e.IP == login.Mask(s.IP))
	})
	if i < 0 {
		return time.Time{}
	}
	return events[i].At
}

func (h *Handlers) LiftLogin(ctx context.Context, in *subjectInput) (*struct{}, error) {
	in.reference, _ = h.Login.Reference(in.Name) // empty if the name is invalid
	s, err := in.subject()
	if err != nil {
		return nil, err
	}
	return nil, nameAt("query.name", h.Login.Lift(context.WithoutCancel(ctx), s))
}

// Forgive deletes the failures that an address may have been banned for: otherwise the next failure would ban it again.
// These are failures of passwords, and of the factors whose bans are in the history.
func (h *Handlers) Forgive(ctx context.Context, target bans.Target) error {
	ip := bannedAddress(target)
	if !ip.IsValid() {
		return nil
	}
	for _, factor := range append(h.bannedFor(ctx, ip), login.Password) {
		if err := h.Login.Lift(ctx, login.Subject{IP: ip, Factor: factor}); err != nil {
			return err
		}
	}
	return nil
}

// bannedAddress returns one of the addresses that a ban for failed logins covers, or none if target cannot be such a ban.
func bannedAddress(target bans.Target) netip.Addr {
	if target.Kind == bans.IP {
		ip, _ := netip.ParseAddr(target.Value) // it is valid
		return ip
	}
	network, err := netip.ParsePrefix(target.Value)
	if err != nil || target.Kind != bans.Network || netaddr.Network(network.Addr()) != target.Value {
		return netip.Addr{}
	}
	return network.Addr()
}

// bannedFor reads the history. A ban can be lifted without it.
func (h *Handlers) bannedFor(ctx context.Context, ip netip.Addr) []string {
	if h.History == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, historyWithin)
	defer cancel()
	factors, err := h.History.BannedFor(ctx, login.Mask(ip))
	if err != nil {
		return nil
	}
	return factors
}

type loginEventView struct {
	_ struct{} `additionalProperties:"true"`

	ID        string       `json:"id"`
	At        time.Time    `json:"at"`
	Rule      string       `json:"rule"`
	Count     login.Count  `json:"count" enum:"name,name_ip,ip,names_per_ip,network,device" doc:"What the rule counts"`
	Action    login.Action `json:"action" enum:"challenge,delay,deny,ban,revoke"`
	Factor    string       `json:"factor"`
	Reference string       `json:"reference,omitempty" doc:"Stands for the name, where the rule counts names; /v1/login/subjects returns it for a name"`
	IP        string       `json:"ip,omitempty" doc:"The address without its end, where the rule counts addresses"`
	Until     *time.Time   `json:"until" doc:"null: as long as the failures stand"`
	Times     int          `json:"times" doc:"Penalties in a row, with this one; of a rule without a window failures in a row"`
	Shadow    bool         `json:"shadow" doc:"The rule only reports"`
}

type loginHistoryInput struct {
	Reference string `query:"reference" maxLength:"64" doc:"Of one name, as /v1/login/subjects returns it"`
	response.Paging
}

// ListLoginEvents lists what rules did, the newest first.
func (h *Handlers) ListLoginEvents(ctx context.Context, in *loginHistoryInput) (*response.PageOutput[loginEventView], error) {
	return response.HistoryPage(in.Paging, func(after string) ([]login.Event, error) {
		switch {
		case in.Reference != "" && !input.Visible(in.Reference, 64):
			return nil, problem.InvalidAt("query.reference", "must be a reference from /v1/login/subjects")
		case h.History == nil:
			return nil, nil
		}
		return h.History.List(ctx, in.Reference, after, in.Limit)
	}, viewLoginEvent, func(e *login.Event) string { return e.ID })
}

func viewLoginEvent(e *login.Event) loginEventView {
	return loginEventView{
		ID: e.ID, At: response.Instant(e.At), Rule: e.Rule, Count: e.Count, Action: e.Action, Factor: e.Factor, Reference: e.Name, IP: e.IP,
		Until: response.InstantOrNull(e.Until), Times: e.Times, Shadow: e.Shadow,
	}
}
