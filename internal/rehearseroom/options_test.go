package rehearseroom_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/rehearse"
	"github.com/tidegate/tidegate/internal/rehearseroom"
)

func TestOptionsNameWhatIsWrong(t *testing.T) {
	for want, spoil := range map[string]func(*rehearseroom.Options){
		"--target is required: at least one":                   func(o *rehearseroom.Options) { o.PublicURLs = nil },
		"--sale is required":                                   func(o *rehearseroom.Options) { o.Sale = "" },
		"--room is required":                                   func(o *rehearseroom.Options) { o.Room = "" },
		"--stock must be at least 1 with --room":               func(o *rehearseroom.Options) { o.Stock = 0 },
		"--stock must be at least 1 with --room, which":        func(o *rehearseroom.Options) { o.Stock = -5 },
		"--buyers must be enough to buy all 40 units: about ":  func(o *rehearseroom.Options) { o.Visitors = 50 },
		"about 96 with --silent 0.5, got -3, of whom 0 take":   func(o *rehearseroom.Options) { o.Visitors = -3 },
		"--silent must be below 1, so that some visitors take": func(o *rehearseroom.Options) { o.Silent = 1 },
		"--silent must be a share from 0 to 1, got -0.5":       func(o *rehearseroom.Options) { o.Silent = -0.5 },
		"--snipers must be a share from 0 to 1, got 1.5":       func(o *rehearseroom.Options) { o.Snipers = 1.5 },
		"--late-visitors must be a share from 0 to 1, got NaN": func(o *rehearseroom.Options) { o.Late = math.NaN() },
		"--second-devices must be a share from 0 to 1, got 2":  func(o *rehearseroom.Options) { o.Devices = 2 },
		"--reloads must be a share from 0 to 1, got -1":        func(o *rehearseroom.Options) { o.Reloads = -1 },
		"--hang-ups must be a share from 0 to 1, got 9":        func(o *rehearseroom.Options) { o.HangUps = 9 },
		"--bots must be a share from 0 to 1, got 1.1":          func(o *rehearseroom.Options) { o.Bots = 1.1 },
		"--gather must be 0 (default) or more, got -1s":        func(o *rehearseroom.Options) { o.Gather = -time.Second },
		"--claim must be 0 (default) or at least 1s, got 1ms":  func(o *rehearseroom.Options) { o.Claim = time.Millisecond },
	} {
		o := rehearseroom.Options{PublicURLs: []string{"http://127.0.0.1:1"}, InternalURL: "http://127.0.0.1:1", Sale: "s", Room: "r", Stock: 40, Visitors: 400, Silent: 0.5}
		spoil(&o)
		if _, err := rehearseroom.Run(t.Context(), o); !errors.Is(err, rehearse.ErrOption) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
