// Package sales has the handlers for sales and their orders: placing, reading, changing, and what operators do.
package sales
