package permits

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/route"
	"github.com/tidegate/tidegate/internal/keyhash"
	"github.com/tidegate/tidegate/internal/seal"
	"github.com/tidegate/tidegate/internal/semregistry"
	"github.com/tidegate/tidegate/semaphore"
)

// Handlers are the handlers for semaphores and their permits. They share one receiver, because all need the registry and
// the keys that sign permits' ids.
type Handlers struct {
	Semaphores *semregistry.Registry
	Keys       seal.Keys
	Draining   func() bool     // waits end then
	Leaving    context.Context // ends when draining begins
	Audit      interface {
		Note(ctx context.Context, action string, detail any, outcome error)
	}
	Log *slog.Logger
}

// Routes are the routes of semaphores and their permits.
func (h *Handlers) Routes() []route.Route {
	const one = "/v1/semaphores/{name}"
	as := func(roles []auth.Role, op huma.Operation) route.Route {
		op.Tags = []string{"Semaphores"}
		return route.Route{Operation: op, Roles: roles}
	}
	return []route.Route{
		route.Of(as(auth.ForReaders, huma.Operation{
			OperationID: "list-semaphores", Method: http.MethodGet, Path: "/v1/semaphores", Summary: "All semaphores and who holds them",
			Errors: []int{401, 403, 422, 503},
		}), h.ListSemaphores),
		route.Of(as(auth.ForReaders, huma.Operation{
			OperationID: "get-semaphore", Method: http.MethodGet, Path: one, Summary: "A semaphore, who holds it and who waits",
			Errors: []int{401, 403, 404, 422, 503},
		}), h.GetSemaphore),
		route.Of(as(auth.ForOperators, huma.Operation{
			OperationID: "put-semaphore", Method: http.MethodPut, Path: one,
			Summary:      "Define a semaphore, or resize it; overrides the rules file and evicts no holder",
			MaxBodyBytes: request.MaxBody + 1, Errors: []int{401, 403, 408, 413, 415, 422, 503},
		}), h.PutSemaphore),
		route.Of(as(auth.ForOperators, huma.Operation{
			OperationID: "revert-semaphore", Method: http.MethodDelete, Path: one,
			Summary: "Take back what PUT has defined: the rules file counts again, and without it there is none",
			Errors:  []int{401, 403, 404, 422, 503},
		}), h.DeleteSemaphore),
		route.Of(as(auth.ForServices, huma.Operation{
			OperationID: "acquire-permit", Method: http.MethodPost, Path: one + "/permits", Summary: "Acquire a permit, or wait for one",
			DefaultStatus: http.StatusCreated, MaxBodyBytes: request.MaxBody + 1, Errors: []int{401, 403, 404, 408, 413, 415, 422, 503},
		}), h.Acquire),
		route.Of(as(auth.ForServices, huma.Operation{
			OperationID: "renew-permit", Method: http.MethodPut, Path: one + "/permits/{id}",
			Summary: "Renew a permit; after 410 it is over, and so is what it was for", Errors: []int{401, 403, 404, 410, 422, 503},
		}), h.Renew),
		route.Of(as(auth.ForServices, huma.Operation{
			OperationID: "release-permit", Method: http.MethodDelete, Path: one + "/permits/{id}",
			Summary:       "Release a permit, also again; operators also that of another, by the id in the list of holders",
			DefaultStatus: http.StatusNoContent, Errors: []int{401, 403, 404, 422, 503},
		}), h.Release),
	}
}

type acquireInput struct {
	Name string `path:"name"`
	Body struct {
		Holder    string   `json:"holder" minLength:"1" maxLength:"255" doc:"Who asks, for those who look at the list of holders; no control characters"`
		Weight    int      `json:"weight,omitempty" minimum:"1" maximum:"10000" default:"1" doc:"How much of the limit is taken"`
		WaitMS    int64    `json:"wait_ms,omitempty" minimum:"0" maximum:"30000" doc:"How long to wait in the queue; 0: not at all"`
		RequestID string   `json:"request_id,omitempty" maxLength:"255" doc:"Of the caller and holder. Sent again while the first one waits or holds, it gets the same permit"`
		Also      []string `json:"also,omitempty" maxItems:"7" doc:"Other semaphores of which the same weight is taken at the same instant: all or none. Their names have the same hash tag, or none"`
	} `nameHint:"PermitRequest"`
}

type permitView struct {
	_ struct{} `additionalProperties:"true"`

	PermitID     string `json:"permit_id" doc:"A secret of the holder: whoever has it can renew and release the permit"`
	FencingToken int64  `json:"fencing_token" doc:"Larger than that of every permit before. Let what the work writes to refuse a smaller one than it has seen"`
	LeaseMS      int64  `json:"lease_ms" doc:"The permit is lost so long after the last renewal was sent"`
	RenewAfterMS int64  `json:"renew_after_ms"`
}

type permitOutput struct {
	CacheControl string `header:"Cache-Control"`
	Location     string `header:"Location"`
	Body         permitView
}

// errLeaving ends waits when the process is shutting down.
var errLeaving = errors.New("permits: draining")

// Acquire waits until the deadline or until the client disconnects. A client that times out gets its position in the queue; one
// that disconnects loses its position.
func (h *Handlers) Acquire(ctx context.Context, in *acquireInput) (*permitOutput, error) {
	sem, err := h.Semaphores.Semaphore(in.Name)
	if err != nil {
		return nil, asUnknown(err, in.Name)
	}
	for i, name := range in.Body.Also {
		if err := semaphore.CheckName(name); err != nil {
			return nil, problem.InvalidAt(fmt.Sprintf("body.also[%d]", i), problem.TextFor(err))
		}
	}
	if err := checkHolder(in.Body.Holder); err != nil {
		return nil, err
	}
	req := semaphore.Request{
		Holder: in.Body.Holder, Weight: in.Body.Weight, Also: in.Body.Also, Try: in.Body.WaitMS == 0 || h.Draining(),
	}
	if in.Body.RequestID != "" {
		req.ID = h.requestID(request.Of(ctx).Grant.Name, in)
	}
	lasting, end := request.Lasting(ctx)
	defer end()
	waiting, cancel := context.WithCancelCause(lasting)
	defer cancel(nil)
	if !req.Try {
		defer context.AfterFunc(h.Leaving, func() { cancel(errLeaving) })()
		wait := time.Duration(in.Body.WaitMS) * time.Millisecond
		timer := time.AfterFunc(wait, func() { cancel(context.DeadlineExceeded) })
		defer timer.Stop()
	}
	grant, full, err := sem.Grant(waiting, req)
	if err != nil && errors.Is(context.Cause(waiting), context.DeadlineExceeded) {
		req.Try = true // the deadline passed before Redis answered
		grant, full, err = sem.Grant(ctx, req)
	}
	refused := request.Of(ctx).StillAllowed()
	switch {
	case refused != nil:
		if grant != nil {
			_ = sem.Release(context.WithoutCancel(ctx), grant.ID) // if this fails, the lease expires
		}
		return nil, refused
	case grant == nil && context.Cause(waiting) == errLeaving: //nolint:errorlint // the cause is the value passed to cancel, unwrapped
		return nil, problem.New(problem.Draining)
	case errors.Is(err, semaphore.ErrTooHeavy):
		return nil, problem.InvalidAt("body.weight", fmt.Sprintf("%s, got %d", problem.TextFor(err), req.Weight))
	case err != nil:
		return nil, semregistry.Away(err)
	case full != nil:
		return nil, atCapacity(full)
	case ctx.Err() != nil && req.ID == "":
		_ = sem.Release(context.WithoutCancel(ctx), grant.ID) // no client will use it; if this fails, the lease expires
		return nil, ctx.Err()
	}
	id := h.signed(forHolder, in.Name, grant.ID)
	return &permitOutput{
		CacheControl: "no-store", Location: "/v1/semaphores/" + in.Name + "/permits/" + id,
		Body: permitView{
			PermitID: id, FencingToken: grant.Token, LeaseMS: grant.Lease.Milliseconds(),
			RenewAfterMS: semaphore.RenewAfter(grant.Lease).Milliseconds(),
		},
	}, nil
}

// checkHolder validates what the schema cannot.
func checkHolder(text string) error {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return problem.InvalidAt("body.holder", "must not contain control characters")
	}
	return nil
}

// atCapacity returns the problem of a caller who got no permit.
func atCapacity(full *semaphore.Refusal) error {
	p := problem.New(problem.AtCapacity)
	p.Position, p.RetryAfter = full.Position, max(full.Wait, p.RetryAfter)
	return p
}

// requestID derives an id that no other caller can have, or use to get a permit. A request with other parameters under the same
// id is a different one, and so is a repetition after the secret has changed.
func (h *Handlers) requestID(token string, in *acquireInput) string {
	text := fmt.Sprintf("permit %q %q %q %q %d %q", token, in.Name, in.Body.Holder, in.Body.RequestID, in.Body.Weight, in.Body.Also)
	return base64.RawURLEncoding.EncodeToString(keyhash.Derive(h.Keys[0], text))
}

type permitInput struct {
	Name string `path:"name"`
	ID   string `path:"id" doc:"permit_id"`
}

type renewalView struct {
	_ struct{} `additionalProperties:"true"`

	PermitID     string `json:"permit_id"`
	LeaseMS      int64  `json:"lease_ms"`
	RenewAfterMS int64  `json:"renew_after_ms"`
}

type renewalOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         renewalView
}

func (h *Handlers) Renew(ctx context.Context, in *permitInput) (*renewalOutput, error) {
	sem, err := h.Semaphores.Semaphore(in.Name)
	if err != nil {
		return nil, asUnknown(err, in.Name)
	}
	id, ok := h.unsigned(forHolder, in.Name, in.ID)
	if !ok {
		return nil, semaphore.ErrPermitLost // an id that was never issued counts as lost
	}
	lease, err := sem.Renew(context.WithoutCancel(ctx), id)
	if err != nil {
		return nil, semregistry.Away(err)
	}
	return &renewalOutput{CacheControl: "no-store", Body: renewalView{
		PermitID: in.ID, LeaseMS: lease.Milliseconds(), RenewAfterMS: semaphore.RenewAfter(lease).Milliseconds(),
	}}, nil
}

// releaseWithin is how long a release is retried.
const releaseWithin = 3 * time.Second

func (h *Handlers) Release(ctx context.Context, in *permitInput) (*struct{}, error) {
	sem, err := h.Semaphores.Semaphore(in.Name)
	if err != nil {
		return nil, asUnknown(err, in.Name)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWithin)
	defer cancel()
	if id, ok := h.unsigned(forHolder, in.Name, in.ID); ok {
		return nil, semregistry.Away(sem.Release(ctx, id))
	}
	id, ok := h.unsigned(forOperator, in.Name, in.ID)
	if !ok || !request.Of(ctx).Grant.Role.May(auth.ForOperators) {
		return nil, problem.InvalidAt("path.id", fmt.Sprintf("must be the id of a permit, got %.80q", in.ID))
	}
	return nil, h.forceRelease(ctx, sem, id)
}

// forceRelease takes a permit away from its holder, which the audit log names.
func (h *Handlers) forceRelease(ctx context.Context, sem *semaphore.Semaphore, id string) error {
	lost := holderView{}
	if st, err := sem.Status(ctx); err == nil { // otherwise the holder stays empty
		for _, held := range st.Holders {
			if held.ID == id {
				lost = viewHolder(held)
			}
		}
	}
	err := semregistry.Away(sem.Release(ctx, id))
	h.Audit.Note(ctx, "release-permit", lost, err)
	return err
}
