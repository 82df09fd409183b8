package livepage

import (
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	type then struct{ second, free int }
	for name, tt := range map[string]struct {
		past      []then
		perSecond float64
		over      int64
		soldOut   int64
	}{
		"nothing is known yet":              {[]then{{0, 10}}, 0, 0, 0},
		"two a second":                      {[]then{{0, 10}, {1, 8}}, 2, 1000, 4000},
		"only the last ten seconds count":   {[]then{{0, 1000}, {1, 500}, {5, 400}, {15, 300}}, 10, 10_000, 30_000},
		"what was idle before counts":       {[]then{{0, 100}, {1, 100}, {2, 100}, {30, 100}, {31, 99}}, 0.1, 10_000, 990_000},
		"units come back":                   {[]then{{0, 5}, {1, 9}}, 0, 1000, 0},
		"sold out":                          {[]then{{0, 5}, {1, 0}}, 5, 1000, 0},
		"the same answer again is no point": {[]then{{0, 10}, {1, 8}, {1, 8}}, 2, 1000, 4000},
	} {
		t.Run(name, func(t *testing.T) {
			s := stock{}
			var sales []Sale
			for _, p := range tt.past {
				sales = []Sale{{Sale: "flash", Items: []Item{{Item: "shoe", Stock: 1000, Free: &p.free}}}}
				s.fill(sales, start.Add(time.Duration(p.second)*time.Second))
			}
			if it := sales[0].Items[0]; it.PerSecond != tt.perSecond || it.OverMS != tt.over || it.SoldOutIn != tt.soldOut {
				t.Errorf("%+v", it)
			}
		})
	}
}

func TestStockRemembersFiveMinutesOfWhatIsThere(t *testing.T) {
	const points = int(kept/time.Second) + 2 // one a second, with both ends
	s, start := stock{}, time.Unix(1_800_000_000, 0)
	sales := []Sale{{Sale: "flash", Items: []Item{{Item: "shoe"}, {Item: "hat", Free: new(7)}}}}
	for i := range 1000 {
		sales[0].Items[0].Free = new(1000 - i)
		s.fill(sales, start.Add(time.Duration(i)*time.Second))
	}
	if shoes, hats := s[itemKey{"flash", "shoe"}], s[itemKey{"flash", "hat"}]; len(shoes) != points || len(hats) != 2 {
		t.Errorf("%d points of what changes, %d of what does not", len(shoes), len(hats))
	}
	sales[0].Items[0].Free = nil
	s.fill(sales, start.Add(1000*time.Second))
	if last := s[itemKey{"flash", "shoe"}][points-1]; last.free != 1 {
		t.Errorf("now nobody knows, but %+v", last)
	}
	sales[0].Items = sales[0].Items[:1]
	s.fill(sales, start.Add(1000*time.Second))
	if len(s) != 1 || len(s.curves()) != 1 {
		t.Errorf("%v", s)
	}
}
