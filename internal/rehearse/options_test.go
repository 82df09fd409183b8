package rehearse

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func TestOptionsNameWhatIsWrong(t *testing.T) {
	for _, tt := range []struct {
		spoil func(*Options)
		want  string // "" = nothing is wrong
	}{
		{func(*Options) {}, ""},
		{func(o *Options) { o.PublicURLs = nil }, "--target is required: at least one"},
		{func(o *Options) { o.PublicURLs[0] = "localhost:8080" }, `--target must be a base URL such as http://127.0.0.1:8080, got "localhost:8080"`},
		{func(o *Options) { o.InternalURL = "" }, `--internal must be a base URL such as http://127.0.0.1:8081, got ""`},
		{func(o *Options) { o.Sale = "" }, "--sale is required"},
		{func(o *Options) { o.Items = []string{""} }, "--item must be names of items"},
		{func(o *Options) { o.Rate = 0 }, "--buyers, --rate, --duration must be two of the three, got 1"},
		{func(o *Options) { o.Duration = time.Second }, "--buyers, --rate, --duration must be two of the three, got all"},
		{func(o *Options) { o.Rate = -1 }, "--rate must be above 0 and at most 1000000 buyers per second, got -1"},
		{func(o *Options) { o.Rate = math.NaN() }, "buyers per second, got NaN"},
		{func(o *Options) { o.Buyers, o.Duration = 0, time.Millisecond }, "--duration must be long enough for one buyer at 100 per second, got 1ms"},
		{func(o *Options) { o.Rate, o.Duration, o.Ramp = 0, time.Second, time.Minute }, "--ramp must be at most --duration 1s, got 1m0s"},
		{func(o *Options) { o.Buyers = -5 }, "--buyers must be 0 (default) or more, got -5"},
		{func(o *Options) { o.DuplicateClicks = 1.5 }, "--duplicate-clicks must be a share from 0 to 1, got 1.5"},
		{func(o *Options) { o.HangUps = math.NaN() }, "--hang-ups must be a share from 0 to 1, got NaN"},
		{func(o *Options) { o.Keyless, o.Stock, o.Quota = 0.5, 10, 2 }, "--keyless must be 0 with a quota above 1, because keys are then required, got 0.5 with a quota of 2"},
		{func(o *Options) { o.Hold = time.Second }, "--hold must be 0 for an existing sale (without --stock), got 1s"},
		{func(o *Options) { o.Shares.Doubled = -1 }, "--doubled must be a share from 0 to 1, got -1"},
		{func(o *Options) { o.Shares.Paid, o.Shares.Races = 0.9, 0.2 }, "--paid, --cancelled, --races must be at most 1 together, got 1.1"},
		{func(o *Options) { o.Shares.Paid, o.Shares.Cancelled, o.Shares.Races = 0.7, 0.2, 0.1 }, ""},
		{func(o *Options) { o.Shares.Early, o.Shares.Late = 0.6, 0.5 }, "--early, --late must be at most 1 together, got 1.1"},
		{func(o *Options) { o.Limit = -1 }, "--limit must be 0 (default) or more, got -1"},
		{func(o *Options) { o.DrainTimeout = -time.Second }, "--drain-timeout must be 0 (default) or more, got -1s"},
		{func(o *Options) { o.Connections, o.Followers = 10, 10 }, "--connections must be more than the followers, 10, got 10"},
		{func(o *Options) { o.Followers = 5000 }, "--followers must be fewer than --connections, 2000 by default, got 5000"},
	} {
		o := Options{PublicURLs: []string{"http://127.0.0.1:8080"}, InternalURL: "http://127.0.0.1:8081", Sale: "demo", Buyers: 1000, Rate: 100}
		tt.spoil(&o)
		err := o.validate()
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%v, want no error", err)
		case tt.want != "" && (!errors.Is(err, ErrOption) || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}

func TestOptionsNameEverythingThatIsWrong(t *testing.T) {
	err := Options{}.validate()
	for _, want := range []string{"--target", "--internal", "--sale", "--buyers, --rate, --duration"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}
