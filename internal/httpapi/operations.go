package httpapi

import (
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/reports"
)

var (
	cancelRoute = huma.Operation{
		OperationID: "cancel-order", Method: http.MethodPost, Path: "/v1/orders/{id}/cancel",
		Summary: "Cancel an order that waits for its payment; again: the same answer", Tags: tagOrders, Errors: []int{401, 403, 404, 409, 429, 503},
	}
	payRoute = huma.Operation{
		OperationID: "pay-order", Method: http.MethodPost, Path: "/v1/orders/{id}/payment",
		Summary: "Record a payment that was captured; under the same reference again: the same answer", Tags: tagBackOffice,
		Description: "Repeat it after 503: it may not be recorded. That is the answer while the order is not committed yet, and for as long as it is " +
			"a dead letter, which is until an operator has had it replayed.",
		MaxBodyBytes: maxBody + 1, Errors: []int{401, 403, 404, 408, 409, 413, 415, 422, 503},
	}

	tagBackOffice = []string{"Back office"}
)

var (
	deadLettersRoute = huma.Operation{
		OperationID: "list-dead-letters", Method: http.MethodGet, Path: "/v1/orders/dead",
		Summary: "Accepted orders that the database refuses to hold", Tags: tagOperating, Errors: []int{401, 403, 422, 503},
	}
	replayRoute = huma.Operation{
		OperationID: "replay-dead-letter", Method: http.MethodPost, Path: "/v1/orders/dead/{id}/replay",
		Summary: "Commit a dead letter after what made the database refuse it is gone; 409: it still refuses", Tags: tagOperating,
		Errors: []int{401, 403, 404, 409, 503},
	}
)

var eventsRoute = huma.Operation{
	OperationID: "order-events", Method: http.MethodGet, Path: "/v1/order-events",
	Summary: "Every change of every order, in one order that never changes; waits for the next one", Tags: tagBackOffice, Errors: []int{401, 403, 422, 503},
}

var (
	attemptRoute = huma.Operation{
		OperationID: "login-attempt", Method: http.MethodPost, Path: "/v1/login/attempts",
		Summary: "Whether somebody may try to log in; asked before the password is checked", Tags: tagLogin,
		MaxBodyBytes: maxBody + 1, Errors: []int{401, 403, 408, 413, 415, 422, 503},
	}
	outcomeRoute = huma.Operation{
		OperationID: "login-outcome", Method: http.MethodPost, Path: "/v1/login/attempts/{id}/outcome",
		Summary: "How an attempt ended; within 30 seconds, else it has failed", Tags: tagLogin,
		MaxBodyBytes: maxBody + 1, Errors: []int{401, 403, 404, 408, 409, 413, 415, 422, 503},
	}

	tagLogin = []string{"Login"}
)

// registerLogins registers the routes for failed logins.
func (a *API) registerLogins(docs huma.API) {
	register(a, docs, auth.ForServices, attemptRoute, a.logins.AttemptLogin)
	register(a, docs, auth.ForServices, outcomeRoute, a.logins.SettleLogin)
	register(a, docs, auth.ForOperators, subjectsRoute, a.logins.LoginSubject)
	register(a, docs, auth.ForOperators, liftRoute, a.logins.LiftLogin)
	register(a, docs, auth.ForViewers, loginHistoryRoute, a.logins.ListLoginEvents)
}

var (
	subjectsRoute = huma.Operation{
		OperationID: "login-subjects", Method: http.MethodGet, Path: "/v1/login/subjects",
		Summary: "How a name or an address stands in every rule for failed logins, and with both what they did together", Tags: tagLogin,
		Errors: []int{401, 403, 422, 503},
	}
	liftRoute = huma.Operation{
		OperationID: "lift-login-subject", Method: http.MethodDelete, Path: "/v1/login/subjects",
		Summary: "Forget what has failed of a name or an address, with both also what they did together. A ban is lifted at /v1/bans", Tags: tagLogin,
		DefaultStatus: http.StatusNoContent, Errors: []int{401, 403, 422, 503},
	}
	loginHistoryRoute = huma.Operation{
		OperationID: "login-history", Method: http.MethodGet, Path: "/v1/login/history",
		Summary: "What rules did about failed logins, the newest first; nobody is named", Tags: tagLogin, Errors: []int{401, 403, 422, 503},
	}
)

var (
	acquireRoute = huma.Operation{
		OperationID: "acquire-permit", Method: http.MethodPost, Path: "/v1/semaphores/{name}/permits", Summary: "Acquire a permit, or wait for one",
		Tags: tagSemaphores, DefaultStatus: http.StatusCreated, MaxBodyBytes: maxBody + 1, Errors: []int{401, 403, 404, 408, 413, 415, 422, 503},
	}
	renewRoute = huma.Operation{
		OperationID: "renew-permit", Method: http.MethodPut, Path: "/v1/semaphores/{name}/permits/{id}",
		Summary: "Renew a permit; after 410 it is over, and so is what it was for", Tags: tagSemaphores, Errors: []int{401, 403, 404, 410, 422, 503},
	}
	releaseRoute = huma.Operation{
		OperationID: "release-permit", Method: http.MethodDelete, Path: "/v1/semaphores/{name}/permits/{id}",
		Summary: "Release a permit, also again; operators also that of another, by the id in the list of holders", Tags: tagSemaphores, DefaultStatus: http.StatusNoContent, Errors: []int{401, 403, 404, 422, 503},
	}
)

// registerPermits registers the routes of semaphores.
func (a *API) registerPermits(docs huma.API) {
	register(a, docs, auth.ForReaders, semaphoresRoute, a.permits.ListSemaphores)
	register(a, docs, auth.ForReaders, semaphoreRoute, a.permits.GetSemaphore)
	register(a, docs, auth.ForOperators, putSemaphoreRoute, a.permits.PutSemaphore)
	register(a, docs, auth.ForOperators, deleteSemaphoreRoute, a.permits.DeleteSemaphore)
	register(a, docs, auth.ForServices, acquireRoute, a.permits.Acquire)
	register(a, docs, auth.ForServices, renewRoute, a.permits.Renew)
	register(a, docs, auth.ForServices, releaseRoute, a.permits.Release)
}

var (
	semaphoresRoute = huma.Operation{
		OperationID: "list-semaphores", Method: http.MethodGet, Path: "/v1/semaphores", Summary: "All semaphores and who holds them",
		Tags: tagSemaphores, Errors: []int{401, 403, 422, 503},
	}
	semaphoreRoute = huma.Operation{
		OperationID: "get-semaphore", Method: http.MethodGet, Path: "/v1/semaphores/{name}", Summary: "A semaphore, who holds it and who waits",
		Tags: tagSemaphores, Errors: []int{401, 403, 404, 422, 503},
	}
	putSemaphoreRoute = huma.Operation{
		OperationID: "put-semaphore", Method: http.MethodPut, Path: "/v1/semaphores/{name}",
		Summary: "Define a semaphore, or resize it; goes before the rules file and evicts nobody", Tags: tagSemaphores,
		MaxBodyBytes: maxBody + 1, Errors: []int{401, 403, 408, 413, 415, 422, 503},
	}
	deleteSemaphoreRoute = huma.Operation{
		OperationID: "revert-semaphore", Method: http.MethodDelete, Path: "/v1/semaphores/{name}",
		Summary: "Take back what PUT has defined: the rules file counts again, and without it there is none", Tags: tagSemaphores,
		Errors: []int{401, 403, 404, 422, 503},
	}

	tagSemaphores = []string{"Semaphores"}
)

// reportWait is how long a report waits for a permit.
const reportWait = 10 * time.Second

// registerReports registers routes that stream, without Huma, which would buffer the whole response.
func (a *API) registerReports(described *huma.OpenAPI) {
	a.internal.GET("/v1/sales/:sale/orders.csv", a.export.CSV, needs(auth.ForServices), a.permits.Limit(reports.Semaphore, reportWait))
	described.AddOperation(&huma.Operation{
		OperationID: "orders-csv", Method: http.MethodGet, Path: "/v1/sales/{sale}/orders.csv", Summary: "All orders of a sale as CSV",
		Description: "Takes a permit of the semaphore `report`, and waits up to 10 s for one. An answer that is cut off is not whole.", Tags: tagOperating,
		Parameters: []*huma.Param{{Name: "sale", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}, Description: "Name of the sale"}},
		Responses:  refusals(&huma.Response{Description: "OK", Content: map[string]*huma.MediaType{"text/csv": {}}}, 401, 403, 404, 503),
	})
}
