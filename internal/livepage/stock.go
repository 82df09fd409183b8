package livepage

import "time"

// paceOver is the maximum interval for measuring a pace.
const paceOver = 10 * time.Second

// stock is the recent history of each item's free units, as far back as pages plot it. While nothing is sold two points suffice.
type stock map[itemKey][]left

type itemKey struct{ sale, item string }

type left struct {
	at   time.Time
	free int
}

// fill adds the sales' numbers, as of at, and sets the pace of each item. Items that no longer exist are dropped.
func (s stock) fill(sales []Sale, at time.Time) {
	seen := make(map[itemKey]bool, len(s))
	for i := range sales {
		for j := range sales[i].Items {
			it := &sales[i].Items[j]
			key := itemKey{sales[i].Sale, it.Item}
			seen[key] = true
			if it.Free == nil {
				continue
			}
			s[key] = grown(s[key], left{at, *it.Free})
			it.PerSecond, it.OverMS, it.SoldOutIn = pace(s[key])
		}
	}
	for key := range s {
		if !seen[key] {
			delete(s, key)
		}
	}
}

func grown(past []left, now left) []left {
	n := len(past)
	switch {
	case n > 0 && !now.at.After(past[n-1].at): // the same result again
		return past
	case n > 1 && past[n-1].free == now.free && past[n-2].free == now.free:
		past[n-1] = now
	default:
		past = append(past, now)
	}
	for len(past) > 1 && now.at.Sub(past[1].at) > kept {
		past = past[1:]
	}
	return past
}

// pace returns the pace of the last seconds. Returned or added units do not make it negative.
func pace(past []left) (perSecond float64, overMS, soldOutIn int64) {
	now := past[len(past)-1]
	begin := now.at.Add(-paceOver)
	i := 0
	for past[i].at.Before(begin) {
		i++
	}
	from := past[i]
	if i > 0 && past[i-1].free == from.free { // no change in between
		from.at = begin
	}
	over := now.at.Sub(from.at)
	if over <= 0 {
		return 0, 0, 0
	}
	if taken := from.free - now.free; taken > 0 {
		perSecond = float64(taken) / over.Seconds()
		soldOutIn = int64(float64(now.free) / perSecond * 1000)
	}
	return perSecond, over.Milliseconds(), soldOutIn
}

// A curve is the history of an item's stock for a new page.
type curve struct {
	Sale  string     `json:"sale"`
	Item  string     `json:"item"`
	Stock [][2]int64 `json:"stock"` // milliseconds since 1970, and units left
}

func (s stock) curves() []curve {
	curves := make([]curve, 0, len(s))
	for key, past := range s {
		c := curve{key.sale, key.item, make([][2]int64, len(past))}
		for i, p := range past {
			c.Stock[i] = [2]int64{p.at.UnixMilli(), int64(p.free)}
		}
		curves = append(curves, c)
	}
	return curves
}
