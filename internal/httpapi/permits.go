package httpapi

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/jsontime"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/semdefs"
	"github.com/tidegate/tidegate/semaphore"
)

var (
	acquireRoute = huma.Operation{
		OperationID: "acquire-permit", Method: http.MethodPost, Path: "/v1/semaphores/{name}/permits", Summary: "Acquire a permit, or wait for one",
		Tags: capping, DefaultStatus: http.StatusCreated, MaxBodyBytes: maxBody + 1, Errors: []int{401, 403, 404, 408, 413, 415, 422, 503},
	}
	renewRoute = huma.Operation{
		OperationID: "renew-permit", Method: http.MethodPut, Path: "/v1/semaphores/{name}/permits/{id}",
		Summary: "Renew a permit; after 410 it is over, and so is what it was for", Tags: capping, Errors: []int{401, 403, 404, 410, 422, 503},
	}
	releaseRoute = huma.Operation{
		OperationID: "release-permit", Method: http.MethodDelete, Path: "/v1/semaphores/{name}/permits/{id}",
		Summary: "Release a permit, also again; operators also that of another, by the id in the list of holders", Tags: capping, DefaultStatus: http.StatusNoContent, Errors: []int{401, 403, 404, 422, 503},
	}
)

// permits registers the routes of semaphores.
func (a *API) permits(docs huma.API) {
	register(a, docs, auth.ForReaders, semaphoresRoute, a.listSemaphores)
	register(a, docs, auth.ForReaders, semaphoreRoute, a.getSemaphore)
	register(a, docs, auth.ForOperators, putSemaphoreRoute, a.putSemaphore)
	register(a, docs, auth.ForOperators, deleteSemaphoreRoute, a.deleteSemaphore)
	register(a, docs, auth.ForServices, acquireRoute, a.acquire)
	register(a, docs, auth.ForServices, renewRoute, a.renew)
	register(a, docs, auth.ForServices, releaseRoute, a.release)
}

type acquireInput struct {
	Name string `path:"name"`
	Body struct {
		Holder    string   `json:"holder" minLength:"1" maxLength:"255" doc:"Who asks, for those who look at the list of holders: at most 255 bytes, and no control characters"`
		Weight    int      `json:"weight,omitempty" minimum:"1" maximum:"10000" default:"1" doc:"How much of the limit is taken"`
		WaitMS    int64    `json:"wait_ms,omitempty" minimum:"0" maximum:"30000" doc:"How long to wait in the queue; 0: not at all"`
		RequestID string   `json:"request_id,omitempty" maxLength:"255" doc:"Of the caller and holder. Sent again while the first one waits or holds, it gets the same permit"`
		Also      []string `json:"also,omitempty" maxItems:"7" doc:"Other semaphores of which the same weight is taken at the same instant: all or none. Their names have the same hash tag, or none"`
	} `nameHint:"PermitRequest"`
}

type permitView struct {
	_ struct{} `additionalProperties:"true"`

	PermitID     string `json:"permit_id" doc:"A secret of the holder: who knows it can renew and release the permit"`
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
var errLeaving = errors.New("httpapi: draining")

// acquire waits until the deadline or until the client disconnects. A client that times out gets its position in the queue; one
// that disconnects loses its position.
func (a *API) acquire(ctx context.Context, in *acquireInput) (*permitOutput, error) {
	sem, err := a.semaphores.Semaphore(in.Name)
	if err != nil {
		return nil, asUnknown(err, in.Name)
	}
	for i, name := range in.Body.Also {
		if err := semaphore.CheckName(name); err != nil {
			return nil, problem.InvalidAt(fmt.Sprintf("body.also[%d]", i), problem.CallerText(err.Error()))
		}
	}
	if err := checkHolder(in.Body.Holder); err != nil {
		return nil, err
	}
	req := semaphore.Request{
		Holder: in.Body.Holder, Weight: in.Body.Weight, Also: in.Body.Also, Try: in.Body.WaitMS == 0 || a.draining.Load(),
	}
	if in.Body.RequestID != "" {
		req.ID = a.requestID(request.Of(ctx).Grant.Name, in)
	}
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !req.Try {
		defer context.AfterFunc(a.leaving, func() { cancel(errLeaving) })()
		wait := time.Duration(in.Body.WaitMS) * time.Millisecond
		timer := time.AfterFunc(wait, func() { cancel(context.DeadlineExceeded) })
		defer timer.Stop()
	}
	grant, err := sem.Grant(waiting, req)
	if errors.Is(context.Cause(waiting), context.DeadlineExceeded) && err != nil && !errors.Is(err, semaphore.ErrAtCapacity) {
		req.Try = true // the deadline passed before Redis answered
		grant, err = sem.Grant(ctx, req)
	}
	var heavy *semaphore.TooHeavyError
	switch {
	case err != nil && context.Cause(waiting) == errLeaving: //nolint:errorlint // the cause is what cancel was told
		return nil, problem.New(problem.Draining)
	case errors.As(err, &heavy):
		return nil, problem.InvalidAt("body.weight", fmt.Sprintf("is %d, and must be at most the limit of %s", req.Weight, heavy.Name))
	case err != nil:
		return nil, semdefs.Away(err)
	case ctx.Err() != nil && req.ID == "":
		_ = sem.Release(context.WithoutCancel(ctx), grant.ID) // no client will use it; if this fails, the lease expires
		return nil, ctx.Err()
	}
	id := a.signed(forHolder, in.Name, grant.ID)
	return &permitOutput{
		CacheControl: "no-store", Location: "/v1/semaphores/" + in.Name + "/permits/" + id,
		Body: permitView{
			PermitID: id, FencingToken: grant.Token, LeaseMS: grant.Lease.Milliseconds(), RenewAfterMS: (grant.Lease / 3).Milliseconds(),
		},
	}, nil
}

// checkHolder validates what the schema cannot, because it counts characters.
func checkHolder(text string) error {
	switch {
	case len(text) > semaphore.MaxText:
		return problem.InvalidAt("body.holder", fmt.Sprintf("has %d bytes, and must have at most %d", len(text), semaphore.MaxText))
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return problem.InvalidAt("body.holder", "must not contain control characters")
	}
	return nil
}

// requestID derives an id that no other caller can have, or use to get a permit. A request with other parameters under the same
// id is a different one, and so is a repetition after the secret has changed.
func (a *API) requestID(token string, in *acquireInput) string {
	h := hmac.New(sha256.New, a.keys[0])
	fmt.Fprintf(h, "permit %q %q %q %q %d %q", token, in.Name, in.Body.Holder, in.Body.RequestID, in.Body.Weight, in.Body.Also)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
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

func (a *API) renew(ctx context.Context, in *permitInput) (*renewalOutput, error) {
	sem, err := a.semaphores.Semaphore(in.Name)
	if err != nil {
		return nil, asUnknown(err, in.Name)
	}
	id, ok := a.unsigned(forHolder, in.Name, in.ID)
	if !ok {
		return nil, semaphore.ErrPermitLost // an id that was never issued counts as lost
	}
	lease, err := sem.Renew(context.WithoutCancel(ctx), id)
	if err != nil {
		return nil, semdefs.Away(err)
	}
	return &renewalOutput{CacheControl: "no-store", Body: renewalView{PermitID: in.ID, LeaseMS: lease.Milliseconds(), RenewAfterMS: (lease / 3).Milliseconds()}}, nil
}

// releaseWithin is how long a release is retried.
const releaseWithin = 3 * time.Second

func (a *API) release(ctx context.Context, in *permitInput) (*struct{}, error) {
	sem, err := a.semaphores.Semaphore(in.Name)
	if err != nil {
		return nil, asUnknown(err, in.Name)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWithin)
	defer cancel()
	if id, ok := a.unsigned(forHolder, in.Name, in.ID); ok {
		return nil, semdefs.Away(sem.Release(ctx, id))
	}
	id, ok := a.unsigned(forOperator, in.Name, in.ID)
	if !ok || !request.Of(ctx).Grant.Role.May(auth.ForOperators) {
		return nil, problem.InvalidAt("path.id", fmt.Sprintf("%.80q is no permit's id", in.ID))
	}
	return nil, a.forceRelease(ctx, sem, id)
}

// forceRelease takes a permit away from its holder, which the audit log names.
func (a *API) forceRelease(ctx context.Context, sem *semaphore.Semaphore, id string) error {
	lost := holderView{}
	if st, err := sem.Status(ctx); err == nil { // otherwise the holder stays empty
		for _, h := range st.Holders {
			if h.ID == id {
				lost = holderView{Holder: h.Holder, Weight: h.Weight, FencingToken: h.Token, Since: jsontime.Instant(h.Since), LeaseUntil: jsontime.Instant(h.Until)}
			}
		}
	}
	err := semdefs.Away(sem.Release(ctx, id))
	a.note(ctx, releaseRoute.OperationID, lost, err)
	return err
}
