// Package semaphore hands out permits: at most so many at once, to callers in any number of processes, with Redis as the judge.
package semaphore
