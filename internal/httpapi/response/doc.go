// Package response has what responses of different handlers share: times, pages of lists, and files.
package response
