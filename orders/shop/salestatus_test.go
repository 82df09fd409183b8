package shop_test

import (
	"testing"

	"github.com/tidegate/tidegate/orders"
)

// TestSales: a page of the list queries Redis only for the sales on it. Their states alone are known without it.
func TestSales(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	for _, id := range []string{"c", "a", "b"} {
		in.sale(p, func(d *orders.Sale) { d.ID = id })
	}
	for _, tt := range []struct {
		after string
		limit int
		want  string
	}{{"", 0, "abc"}, {"", 2, "ab"}, {"a", 1, "b"}, {"b", 5, "c"}, {"aa", 0, "bc"}, {"c", 1, ""}} {
		list, err := p.Sales(t.Context(), tt.after, tt.limit)
		must(t, err)
		got := ""
		for _, s := range list {
			got += s.ID
			if s.State != orders.StateOpen || s.Free["shoe"] != 10 {
				t.Errorf("%+v", s)
			}
		}
		if got != tt.want {
			t.Errorf("behind %q at most %d: %q, want %q", tt.after, tt.limit, got, tt.want)
		}
	}
	_, err := p.SetSwitch(t.Context(), "b", orders.SwitchPaused)
	must(t, err)
	_ = p.rdb.Close()
	states, err := p.SaleStates()
	must(t, err)
	got := ""
	for _, s := range states {
		got += s.ID + " " + string(s.State) + " "
	}
	if want := "a open b paused c open "; got != want {
		t.Errorf("states %q, want %q", got, want)
	}
}
