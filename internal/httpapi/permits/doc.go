// Package permits has the handlers for semaphores and their permits, and the middleware of routes that need a permit.
package permits
