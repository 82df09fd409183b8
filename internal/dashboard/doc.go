// Package dashboard is the live page: one page, and a stream of one frame a second that all pages share.
//
// What a process counts by itself comes from the metrics that Prometheus scrapes, so that the page and a scrape never differ. What is in
// Redis and the database is asked once a second for all pages together, and while there is none only about sales, now and then.
package dashboard
