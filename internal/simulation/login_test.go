package simulation

import (
	"io"
	"testing"
	"time"

	"github.com/tidegate/tidegate/login"
)

// TestTries shows what judges of logins find, in tries of 10 ms at times in milliseconds.
func TestTries(t *testing.T) {
	began := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	deny := login.Step{Count: login.CountNameIP, Limit: 2, Window: time.Second, Then: login.Deny, For: time.Second}
	guess := func(ms int, action login.Action, change func(*try)) try {
		made := try{name: "ann", from: "a", began: at(ms), ended: at(ms + 10), decided: true, Decision: login.Decision{Action: action}}
		if action == login.Deny {
			made.Rule = deny.Name()
		}
		if change != nil {
			change(&made)
		}
		return made
	}
	allow := func(ms int) try { return guess(ms, login.Allow, nil) }
	elsewhere := func(t *try) { t.from = "b" }
	lost := func(t *try) { t.decided = false }
	device := func(t *try) { t.device = "token" }
	for name, tt := range map[string]struct {
		tries  []try
		forgot int // Redis forgets then; 0: never
		broken bool
	}{
		"as many as are allowed":       {tries: []try{allow(0), allow(100), allow(1001), guess(1200, login.Deny, nil)}},
		"one too many":                 {tries: []try{allow(0), allow(100), allow(900)}, broken: true},
		"one too many after a loss":    {tries: []try{allow(0), allow(100), allow(900)}, forgot: 500},
		"perhaps one too many":         {tries: []try{allow(0), allow(100), allow(995)}},
		"from two addresses":           {tries: []try{allow(0), allow(100), guess(900, login.Allow, elsewhere)}},
		"not decided by Redis":         {tries: []try{allow(0), allow(100), guess(900, login.Allow, lost)}},
		"denied too early":             {tries: []try{allow(0), guess(100, login.Deny, nil)}, broken: true},
		"denied for another address":   {tries: []try{allow(0), allow(100), guess(200, login.Deny, elsewhere)}, broken: true},
		"denied too long":              {tries: []try{allow(0), allow(100), guess(2200, login.Deny, nil)}, broken: true},
		"denied for one without reply": {tries: []try{allow(0), guess(100, "", lost), guess(2200, login.Deny, nil), allow(200)}},
		"a good device":                {tries: []try{guess(0, login.Delay, device)}, broken: true},
	} {
		w := &World{out: io.Discard, began: began}
		if tt.forgot > 0 {
			w.forgot = []time.Time{at(tt.forgot)}
		}
		w.boundTries(&deny, tt.tries)
		w.causeOfRefusals(&deny, tt.tries)
		w.letOwnersIn(tt.tries)
		if broken := len(w.breaches) > 0; broken != tt.broken {
			t.Errorf("%s: %q", name, w.breaches)
		}
	}
}
