package rehearse

import (
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/judge"
)

func TestReadHistory(t *testing.T) {
	const whole = `{"run":{"prefix":"c-","planned":2}}
{"call":{"seq":1,"buyer":"c-1","outcome":"lost","reason":"timeout"}}
{"status_read":{"order_id":"x","order_status":"confirmed"}}
`
	for _, tt := range []struct {
		name, file   string
		calls, looks int
		wrong        string
	}{
		{"whole", whole, 1, 1, ""},
		{"cut short by a crash", whole[:len(whole)-20], 1, 0, ""},
		{"empty", "", 0, 0, ""},
		{"not a history", `{"run":{}} {"call":[]}`, 0, 0, "history record 2"},
	} {
		h, err := ReadHistory(strings.NewReader(tt.file))
		switch {
		case tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)):
			t.Errorf("%s: error %v, want %s", tt.name, err, tt.wrong)
		case tt.wrong == "" && (err != nil || len(h.Calls) != tt.calls || len(h.StatusReads) != tt.looks):
			t.Errorf("%s: %+v, %v", tt.name, h, err)
		}
	}
}

func FuzzReadHistory(f *testing.F) {
	f.Add(`{"run":{"prefix":"c-","planned":1}}{"call":{"seq":0,"attempt":1,"buyer":"c-1","outcome":"admitted","order_id":"x"}}`)
	f.Add(`{"status_read":{"order_id":"x","order_status":"paid","started_ns":5}}`)
	f.Fuzz(func(t *testing.T, file string) {
		h, err := ReadHistory(strings.NewReader(file))
		if err != nil {
			return
		}
		findings := judge.Findings(h, judge.Evidence{Orders: []judge.Order{}}) // any history can be judged and reported
		if r := newReport(Options{}, h, judge.Evidence{}, findings); r.WriteTable(&strings.Builder{}) != nil {
			t.Error("no table")
		}
	})
}
