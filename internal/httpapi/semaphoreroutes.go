package httpapi

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/internal/auth"
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
