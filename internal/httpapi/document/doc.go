// Package document serves JSON and other texts that are the same for many callers: with an ETag, compressed where that makes them
// smaller, and made once for all who ask within a moment.
package document
