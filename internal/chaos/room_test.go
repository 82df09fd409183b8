package chaos

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/judge"
	"github.com/tidegate/tidegate/internal/rehearseroom"
)

// roomSale is the sale behind the waiting room. The evidence of the crowd, which buys in another sale, says nothing about its orders.
const roomSale = "queued"

// throughARoom sends visitors through a waiting room to another sale while the faults are injected. The function that it returns waits for
// the last one, and judges.
func (c *cluster) throughARoom(ctx context.Context, p plan) (conclude func(*result)) {
	visitors := c.visitors
	if visitors == 0 {
		return func(*result) {}
	}
	var (
		report *rehearseroom.Report
		err    error
		over   sync.WaitGroup
	)
	over.Go(func() {
		report, err = rehearseroom.Run(ctx, rehearseroom.Options{
			PublicURLs: c.public, InternalURL: c.internal[0], Token: c.token, Sale: roomSale, Room: "queue", Stock: max(visitors/6, 1), Visitors: visitors,
			Gather: 3 * time.Second, Late: 0.2, Silent: 0.4, Devices: 0.3, Snipers: 0.3, Reloads: 0.2, HangUps: 0.2, Bots: 0.1,
			Claim: 4 * time.Second, Pass: 3 * time.Minute, Seed: p.Seed,
			Timeout: c.drainTime, RequestTimeout: 3 * time.Second, ClockJumps: p.setsDatabaseClock(),
		})
	})
	return func(res *result) {
		over.Wait()
		if err != nil {
			res.breach("room", err.Error())
		}
		if report == nil {
			return
		}
		res.Visitors, res.Ordered = report.Visitors, report.Ordered
		for _, f := range report.Findings {
			if f.Verdict == judge.Breach {
				res.breach(f.Invariant, fmt.Sprintf("the waiting room: %s: %d of %d", f.Title, f.Breaches, f.Checked), f.Examples...)
			}
		}
	}
}
