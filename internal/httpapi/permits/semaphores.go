package permits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/internal/livepage"
	"github.com/tidegate/tidegate/internal/semregistry"
	"github.com/tidegate/tidegate/semaphore"
)

// SemaphoreView is a semaphore in responses.
type SemaphoreView struct {
	_ struct{} `additionalProperties:"true"`

	Name     string          `json:"name"`
	Limit    int             `json:"limit" doc:"Weight that may be held at once"`
	LeaseMS  int64           `json:"lease_ms" doc:"Of permits that are acquired from now on"`
	Source   string          `json:"source" enum:"file,api,overridden,program,none" doc:"Who defines it: the rules file (or the built-in rules), PUT, PUT over the rules file, a Go program; none: it is no more, and shown as long as somebody holds it"`
	Declared *sizeView       `json:"declared,omitempty" doc:"overridden: the definition in the rules file"`
	SetBy    string          `json:"set_by,omitempty" doc:"The name of the token that PUT it"`
	SetAt    *time.Time      `json:"set_at,omitempty"`
	InUse    int             `json:"in_use" doc:"Weight that is held"`
	Waiting  int             `json:"waiting" doc:"How many wait"`
	QuietMS  int64           `json:"quiet_ms" doc:"Redis has lost its memory: for so long nothing is granted while holders register again"`
	HeldMS   int64           `json:"held_ms" doc:"How long a permit was held lately, on average; 0: not known"`
	Totals   semaphoreTotals `json:"totals" doc:"Since the semaphore was defined in this Redis"`
	Holders  []holderView    `json:"holders" doc:"At most 1000, those whose lease ends first before the others"`
	Waiters  []waiterView    `json:"waiters" doc:"At most 1000, as they stand in the queue"`
}

type sizeView struct {
	_ struct{} `additionalProperties:"true"`

	Limit   int   `json:"limit"`
	LeaseMS int64 `json:"lease_ms"`
}

type semaphoreTotals struct {
	_ struct{} `additionalProperties:"true"`

	Granted   int64 `json:"granted"`
	Waited    int64 `json:"waited" doc:"Granted after waiting"`
	WaitedMS  int64 `json:"waited_ms" doc:"All of them together"`
	TimedOut  int64 `json:"timed_out" doc:"Gave up waiting"`
	Lost      int64 `json:"lost" doc:"Leases that ended before their permit's release"`
	Abandoned int64 `json:"abandoned" doc:"Waiters whose process died"`
}

type holderView struct {
	_ struct{} `additionalProperties:"true"`

	PermitID     string    `json:"permit_id,omitempty" doc:"For operators: releases the permit. The holder has another one, which renews it"`
	Holder       string    `json:"holder"`
	Weight       int       `json:"weight"`
	FencingToken int64     `json:"fencing_token"`
	Since        time.Time `json:"since"`
	LeaseUntil   time.Time `json:"lease_until"`
}

// viewHolder returns the view of a holder without the id of its permit.
func viewHolder(h semaphore.Holder) holderView {
	return holderView{
		Holder: h.Holder, Weight: h.Weight, FencingToken: h.Token, Since: response.Instant(h.Since), LeaseUntil: response.Instant(h.Until),
	}
}

type waiterView struct {
	_ struct{} `additionalProperties:"true"`

	Holder string    `json:"holder"`
	Weight int       `json:"weight"`
	Since  time.Time `json:"since"`
}

// viewSemaphore combines a semaphore's definition and status. Either may be incomplete.
func (h *Handlers) viewSemaphore(st *semaphore.Status, e *semregistry.Entry, by auth.Role) SemaphoreView {
	v := SemaphoreView{
		Name: st.Name, Limit: st.Limit, LeaseMS: st.Lease.Milliseconds(), Source: "program", InUse: st.InUse, Waiting: st.Waiting,
		QuietMS: st.GrantsResumeIn.Milliseconds(), HeldMS: st.Held.Milliseconds(),
		Totals: semaphoreTotals{
			Granted: st.Totals.Granted, Waited: st.Totals.Waited, WaitedMS: st.Totals.WaitedFor.Milliseconds(),
			TimedOut: st.Totals.TimedOut, Lost: st.Totals.Lost, Abandoned: st.Totals.Abandoned,
		},
		Holders: make([]holderView, len(st.Holders)), Waiters: make([]waiterView, len(st.Waiters)),
	}
	for i, held := range st.Holders {
		v.Holders[i] = viewHolder(held)
		if by.May(auth.ForOperators) {
			v.Holders[i].PermitID = h.signed(forOperator, st.Name, held.ID)
		}
	}
	for i, w := range st.Waiters {
		v.Waiters[i] = waiterView{Holder: w.Holder, Weight: w.Weight, Since: response.Instant(w.Since)}
	}
	if e == nil {
		if st.Undefined {
			v.Source = "none"
		}
		return v
	}
	switch {
	case e.Set != nil && e.File != nil:
		v.Source = "overridden"
		v.Declared = &sizeView{Limit: e.File.Limit, LeaseMS: e.File.Lease.Milliseconds()}
	case e.Set != nil:
		v.Source = "api"
	case e.File != nil:
		v.Source = "file"
	}
	if e.Set != nil {
		v.SetBy, v.SetAt = e.Set.By, response.InstantOrNull(e.Set.At)
	}
	return v
}

type semaphoreInput struct {
	Name string `path:"name" doc:"Of a-z 0-9 -, or a hash tag of the same, a colon and a name: what has the same tag, or none, can be acquired together"`
}

type semaphoreOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         SemaphoreView
}

func (h *Handlers) ListSemaphores(ctx context.Context, in *response.Paging) (*response.PageOutput[SemaphoreView], error) {
	after, err := response.ParseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	all, err := h.Semaphores.Entries(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(e semregistry.Entry) bool {
		_, ok := e.InForce()
		return !ok || e.Name <= string(after)
	})
	page := all[:min(len(all), in.Limit)]
	statuses, err := h.Semaphores.Statuses(ctx, page)
	if err != nil {
		return nil, err
	}
	view := func(s *semregistry.EntryStatus) SemaphoreView {
		return h.viewSemaphore(&s.Status, &s.Entry, request.Of(ctx).Grant.Role)
	}
	out := response.PageOf(statuses, false, view, nil)
	if len(all) > in.Limit { // the last of page may have been removed since, and have no status
		out.Body.NextCursor = response.Cursor([]byte(page[len(page)-1].Name))
	}
	return out, nil
}

func (h *Handlers) GetSemaphore(ctx context.Context, in *semaphoreInput) (*semaphoreOutput, error) {
	e, err := h.Semaphores.Entry(ctx, in.Name)
	switch {
	case errors.Is(err, semaphore.ErrUnknown): // a Go program may have defined it, or it may still have holders
		return h.semaphore(ctx, in.Name, nil)
	case err != nil:
		return nil, asUnknown(err, in.Name)
	}
	return h.semaphore(ctx, in.Name, &e)
}

// semaphore returns a semaphore. e is nil if only Redis has it.
func (h *Handlers) semaphore(ctx context.Context, name string, e *semregistry.Entry) (*semaphoreOutput, error) {
	sem, err := h.Semaphores.Semaphore(name)
	if err != nil {
		return nil, asUnknown(err, name)
	}
	st, err := sem.Status(ctx)
	if err != nil {
		return nil, semregistry.Away(err)
	}
	return &semaphoreOutput{CacheControl: "no-store", Body: h.viewSemaphore(&st, e, request.Of(ctx).Grant.Role)}, nil
}

// asUnknown replaces the error for an invalid name: no semaphore can have it.
func asUnknown(err error, name string) error {
	if errors.Is(err, semaphore.ErrInvalid) {
		return fmt.Errorf("%w %q", semaphore.ErrUnknown, name)
	}
	return err
}

type putSemaphoreInput struct {
	Name string `path:"name" doc:"Of a-z 0-9 -, or a hash tag of the same, a colon and a name"`
	Body SemaphoreDefinition
}

// SemaphoreDefinition is what an operator decides about a semaphore.
type SemaphoreDefinition struct {
	Limit   int   `json:"limit" minimum:"0" maximum:"1000000" doc:"Weight that may be held at once; 0: no permit is granted until it grows"`
	LeaseMS int64 `json:"lease_ms,omitempty" minimum:"1000" maximum:"3600000" default:"15000" doc:"How long a permit lasts without renewal"`
}

// AuditDetail returns what the audit log stores of the request.
func (in *putSemaphoreInput) AuditDetail() any { return in.Body }

func (h *Handlers) PutSemaphore(ctx context.Context, in *putSemaphoreInput) (*semaphoreOutput, error) {
	ctx = context.WithoutCancel(ctx)
	by := request.Of(ctx).Grant.Name
	e, err := h.Semaphores.Override(ctx, in.Name, semregistry.Override{
		Size: semregistry.Size{Limit: in.Body.Limit, Lease: time.Duration(in.Body.LeaseMS) * time.Millisecond}, By: by,
		At: response.Instant(time.Now()),
	})
	switch {
	case errors.Is(err, semaphore.ErrInvalid):
		return nil, problem.InvalidAt("path.name", problem.TextFor(err))
	case err != nil:
		return nil, err
	}
	return h.semaphore(ctx, in.Name, &e)
}

func (h *Handlers) DeleteSemaphore(ctx context.Context, in *semaphoreInput) (*semaphoreOutput, error) {
	ctx = context.WithoutCancel(ctx)
	e, err := h.Semaphores.Revert(ctx, in.Name)
	if err != nil {
		return nil, asUnknown(err, in.Name)
	}
	if _, ok := e.InForce(); ok {
		return h.semaphore(ctx, in.Name, &e)
	}
	out, err := h.semaphore(ctx, in.Name, nil)
	if errors.Is(err, semaphore.ErrUnknown) { // it has no holder
		gone := h.viewSemaphore(&semaphore.Status{Name: in.Name, Undefined: true}, nil, request.Of(ctx).Grant.Role)
		return &semaphoreOutput{CacheControl: "no-store", Body: gone}, nil
	}
	return out, err
}

const mostHolders = 20 // that the page reads; it shows fewer

// ForPage returns all semaphores for the page.
func (h *Handlers) ForPage(ctx context.Context) ([]livepage.Semaphore, error) {
	entries, err := h.Semaphores.Entries(ctx)
	if err != nil {
		return nil, err
	}
	statuses, err := h.Semaphores.Statuses(ctx, entries)
	if err != nil {
		return nil, err
	}
	all := make([]livepage.Semaphore, len(statuses))
	for i := range statuses {
		st := &statuses[i].Status
		st.Holders, st.Waiters = st.Holders[:min(len(st.Holders), mostHolders)], nil
		view := h.viewSemaphore(st, &statuses[i].Entry, auth.RoleOperator) // no viewer can release a permit by its id
		all[i] = livepage.Semaphore{Name: view.Name, Limit: view.Limit, InUse: view.InUse, Waiting: view.Waiting, Holders: []livepage.Holder{}}
		for _, held := range view.Holders {
			all[i].Holders = append(all[i].Holders, livepage.Holder{
				PermitID: held.PermitID, Holder: held.Holder, Weight: held.Weight, Since: held.Since, Until: held.LeaseUntil,
			})
		}
	}
	return all, nil
}
