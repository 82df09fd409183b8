// Package attachment answers requests with files that are made while they are sent.
package attachment
