package dashboard

import "time"

// paceOver is the longest that a pace is measured over.
const paceOver = 10 * time.Second

// pace is how many units were left of each item lately.
type pace map[[2]string][]left

type left struct {
	at   time.Time
	free int
}

// fill puts the pace of each item into sales. Units that came back, or were added, do not make it slower than 0.
func (p pace) fill(sales []Sale, now time.Time) {
	seen := map[[2]string]bool{}
	for i := range sales {
		for j := range sales[i].Items {
			it := &sales[i].Items[j]
			key := [2]string{sales[i].Sale, it.Item}
			seen[key] = true
			past := append(p[key], left{now, it.Free})
			for len(past) > 1 && now.Sub(past[0].at) > paceOver {
				past = past[1:]
			}
			p[key] = past
			taken, over := past[0].free-it.Free, now.Sub(past[0].at).Seconds()
			if it.PerSecond, it.SoldOutIn = 0, 0; taken <= 0 || over <= 0 {
				continue
			}
			it.PerSecond = float64(taken) / over
			it.SoldOutIn = int64(float64(it.Free) / it.PerSecond * 1000)
		}
	}
	for key := range p {
		if !seen[key] {
			delete(p, key)
		}
	}
}
