// Package health has the handlers of probes.
package health
