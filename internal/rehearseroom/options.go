package rehearseroom

import (
	"cmp"
	"math"
	"time"

	"github.com/tidegate/tidegate/internal/rehearse"
)

// Options of a run. Shares are from 0 to 1.
type Options struct {
	PublicURLs  []string // of the processes, between which visitors are distributed
	InternalURL string
	Token       string // of an operator; may be empty
	Sale        string // created by the run, with one item
	Room        string // created by the run
	Stock       int
	Visitors    int
	Gather      time.Duration // from the first visitor to the start, which is put off while visitors who come before it are missing
	Late        float64       // share of visitors who join after the start
	Silent      float64       // share of visitors who never take their turn
	Devices     float64       // share of visitors who use two devices at once
	Snipers     float64       // share of visitors who order without a turn
	Reloads     float64       // share of visitors whose browser forgets the token of the place after each answer
	HangUps     float64       // share of visitors who join, claim and order once without reading the answer, and then again
	Bots        float64       // share of visitors who are identities of one bot, and join all at once as early as they can
	Claim       time.Duration
	Pass        time.Duration
	// RequestTimeout bounds one request, which is then repeated.
	RequestTimeout time.Duration
	Timeout        time.Duration // bounds the set-up, and the run after the start
	ClockJumps     bool          // the database's clock is set meanwhile: what the visitors compare with their own clock is not judged
	Seed           uint64
}

func (o Options) withDefaults() Options {
	o.Gather = cmp.Or(o.Gather, 2*time.Second)
	o.Claim = cmp.Or(o.Claim, 2*time.Second)
	o.Pass = cmp.Or(o.Pass, 30*time.Second)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 10*time.Second)
	o.Timeout = cmp.Or(o.Timeout, 2*time.Minute)
	return o
}

// readsPerSecond bounds how many places are read in a second. As far as it allows, visitors read once a second, so that a rehearsal takes
// seconds; a larger crowd reads when the places say.
const readsPerSecond = 1000

func (o Options) longestPause() time.Duration {
	return max(time.Second, time.Duration(o.Visitors)*time.Second/readsPerSecond)
}

// validate checks the options before defaults are applied, and reports all invalid ones at once.
func (o Options) validate() error {
	var errs rehearse.OptionErrors
	if len(o.PublicURLs) == 0 {
		errs.Add("--target", "is required: at least one URL such as http://127.0.0.1:8080")
	}
	for name, value := range map[string]string{"--sale": o.Sale, "--room": o.Room} {
		if value == "" {
			errs.Add(name, "is required: a name of a-z, 0-9 and -, which does not exist yet")
		}
	}
	if o.Stock < 1 {
		errs.Add("--stock", "must be at least 1 with --room, which creates the sale, got %d", o.Stock)
	}
	shares := errs.CheckShares(
		rehearse.Share{Option: "--late-visitors", Value: o.Late},
		rehearse.Share{Option: "--silent", Value: o.Silent},
		rehearse.Share{Option: "--second-devices", Value: o.Devices},
		rehearse.Share{Option: "--snipers", Value: o.Snipers},
		rehearse.Share{Option: "--reloads", Value: o.Reloads},
		rehearse.Share{Option: "--hang-ups", Value: o.HangUps},
		rehearse.Share{Option: "--bots", Value: o.Bots},
	)
	// A room ends when everything is sold, so enough visitors must take their turn.
	if o.Stock > 0 && shares {
		loud := 0
		for _, v := range newCrowd(o) {
			if !v.silent {
				loud++
			}
		}
		switch {
		case o.Silent == 1:
			errs.Add("--silent", "must be below 1, so that some visitors take their turn, got 1")
		case loud < o.Stock:
			errs.Add("--buyers", "must be enough to buy all %d units: about %.0f with --silent %g, got %d, of whom %d take their turn",
				o.Stock, math.Ceil(1.2*float64(o.Stock)/(1-o.Silent)), o.Silent, o.Visitors, loud)
		}
	}
	if o.Gather < 0 {
		errs.Add("--gather", "must be 0 (default) or more, got %v", o.Gather)
	}
	if o.Claim != 0 && o.Claim < time.Second {
		errs.Add("--claim", "must be 0 (default) or at least 1s, got %v", o.Claim)
	}
	return errs.Err()
}
