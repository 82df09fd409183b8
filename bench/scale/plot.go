package main

import (
	"fmt"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// draw writes two plots: Redis' time by the number of nodes after the sell-out, and by time for some numbers of nodes.
func draw(results map[time.Duration][]*result, path func(name string) string) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = "Redis after the last unit is sold", "APIs", "% of a core"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, nodeTicks()
	p.Legend.Top, p.Legend.Left, p.Legend.YOffs = true, true, -vg.Centimeter
	var lines []any
	for _, lifetime := range lifetimes {
		var points plotter.XYs
		for i, r := range results[lifetime] {
			if after := r.afterwards(); after >= 0 {
				points = append(points, plotter.XY{X: float64(manyNodes[i]), Y: 100 * after})
			}
		}
		lines = append(lines, fmt.Sprintf("remembered for %v", lifetime), points)
	}
	if err := save(p, lines, path("scale-nodes")); err != nil {
		return err
	}

	p = plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = "Redis in the first ten seconds, remembered for 200 ms", "seconds", "% of a core"
	p.Legend.Top = true
	lines = nil
	for i, n := range manyNodes {
		if n != 2 && n != 8 && n != 32 && n != 128 {
			continue
		}
		const window = 100
		var points plotter.XYs
		redis := results[200*time.Millisecond][i].redis
		for from := 0; from < steps; from += window {
			points = append(points, plotter.XY{
				X: (time.Duration(from) * step).Seconds(), Y: 100 * float64(sum(redis[from:from+window])) / float64(window*step),
			})
		}
		lines = append(lines, fmt.Sprintf("%d APIs", n), points)
	}
	return save(p, lines, path("scale-time"))
}

func save(p *plot.Plot, lines []any, path string) error {
	if err := plotutil.AddLines(p, lines...); err != nil {
		return err
	}
	p.Y.Min, p.Y.Max = 0, 100
	return p.Save(18*vg.Centimeter, 9*vg.Centimeter, path)
}

func nodeTicks() plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, n := range manyNodes {
		ticks = append(ticks, plot.Tick{Value: float64(n), Label: fmt.Sprint(n)})
	}
	return ticks
}
