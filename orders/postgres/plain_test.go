package postgres

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPlainTries: the more batches in a row were not plain, the longer none is tried.
func TestPlainTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p plainTries
		for _, want := range []time.Duration{plainPause, 2 * plainPause, 4 * plainPause} {
			p.tried(false)
			time.Sleep(want - time.Nanosecond)
			if p.may() {
				t.Errorf("tried again before %v", want)
			}
			time.Sleep(time.Nanosecond)
			if !p.may() {
				t.Errorf("not tried after %v", want)
			}
		}
		for range 10 {
			p.tried(false)
		}
		time.Sleep(plainPauseMost)
		if !p.may() {
			t.Errorf("not tried after %v", plainPauseMost)
		}
		p.tried(true)
		p.tried(false)
		time.Sleep(plainPause)
		if !p.may() {
			t.Error("a success does not end the pause")
		}
	})
}
