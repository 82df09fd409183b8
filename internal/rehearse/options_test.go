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
		{func(o *Options) { o.PublicURLs = nil }, "--target: none given; want at least one"},
		{func(o *Options) { o.PublicURLs[0] = "localhost:8080" }, `--target: "localhost:8080" is not a base URL; want one such as http://`},
		{func(o *Options) { o.InternalURL = "" }, `--internal: "" is not a base URL`},
		{func(o *Options) { o.Sale = "" }, "--sale: empty; want"},
		{func(o *Options) { o.Items = []string{""} }, "--item: an item is empty"},
		{func(o *Options) { o.Rate = 0 }, "--buyers, --rate, --duration: 1 of them given; want two"},
		{func(o *Options) { o.Duration = time.Second }, "--buyers, --rate, --duration: all three given; want two"},
		{func(o *Options) { o.Rate = -1 }, "--rate: -1 is out of range; want new buyers per second, above 0"},
		{func(o *Options) { o.Rate = math.NaN() }, "--rate: NaN is out of range"},
		{func(o *Options) { o.Buyers, o.Duration = 0, time.Millisecond }, "--duration: 1ms at 100 buyers per second brings nobody"},
		{func(o *Options) { o.Rate, o.Duration, o.Ramp = 0, time.Second, time.Minute }, "--ramp: 1m0s is longer than --duration 1s"},
		{func(o *Options) { o.Buyers = -5 }, "--buyers: -5 is negative; want 0 for the default, or more"},
		{func(o *Options) { o.DuplicateClicks = 1.5 }, "--duplicate-clicks: 1.5 is not a share; want 0 to 1"},
		{func(o *Options) { o.HangUps = math.NaN() }, "--hang-ups: NaN is not a share"},
		{func(o *Options) { o.Keyless, o.Stock, o.Quota = 0.5, 10, 2 }, "--keyless: 0.5 with a quota of 2, which makes the key required"},
		{func(o *Options) { o.Hold = time.Second }, "--hold: 1s for a sale that is there already; want 0, or --stock"},
		{func(o *Options) { o.Fates.Doubled = -1 }, "--doubled: -1 is not a share"},
		{func(o *Options) { o.Fates.Paid, o.Fates.Races = 0.9, 0.2 }, "--paid, --cancelled, --races: 1.1 together; want at most 1"},
		{func(o *Options) { o.Fates.Paid, o.Fates.Cancelled, o.Fates.Races = 0.7, 0.2, 0.1 }, ""},
		{func(o *Options) { o.Fates.Early, o.Fates.Late = 0.6, 0.5 }, "--early, --late: 1.1 together"},
		{func(o *Options) { o.Limit = -1 }, "--limit: -1 is negative"},
		{func(o *Options) { o.DrainTimeout = -time.Second }, "--drain-timeout: -1s is negative"},
		{func(o *Options) { o.Connections, o.Followers = 10, 10 }, "--connections: 10 leave none for orders beside 10 followers"},
		{func(o *Options) { o.Followers = 5000 }, "--followers: 5000 leave none of the 2000 connections"},
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
