// Package livepage is the live page: a page, and a stream of one frame a second that is shared by all viewers.
//
// Numbers of this process come from its Prometheus metrics, so that the page and a scrape never differ. Redis and the database are
// queried once a second for all viewers together, by package internal/httpapi/live. Without viewers only sales are queried, every
// few seconds.
package livepage
