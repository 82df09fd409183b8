package livepage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/admission"
)

// feeding runs a feed in the bubble of a test; what ends it waits for its end.
func feeding(t *testing.T, r *Recorder, s Sources) (*Feed, func()) {
	t.Helper()
	f := NewFeed(r, s, slog.New(slog.NewTextHandler(io.Discard, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	synctest.Wait() // it counts from here
	return f, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func opened(t *testing.T, f *Feed) (chan []byte, past) {
	t.Helper()
	frames, history, ok := f.open()
	var p past
	if !ok || json.Unmarshal(history, &p) != nil {
		t.Fatalf("%t %s", ok, history)
	}
	return frames, p
}

func next(t *testing.T, frames chan []byte) (f Frame) {
	t.Helper()
	if err := json.Unmarshal(<-frames, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAFrameASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRecorder()
		free := 100
		var asks atomic.Int32
		f, stop := feeding(t, r, Sources{
			Sales: func(context.Context) ([]Sale, error) {
				asks.Add(1)
				free -= 5
				left := free
				return []Sale{{Sale: "flash", State: "open", Items: []Item{{Item: "shoe", Stock: 100, Free: &left}}}}, nil
			},
			Rules: func() []string { return []string{"second", "first"} },
		})
		defer stop()
		answered(r, Admitted, "", time.Millisecond, admission.Request{User: "ada", Method: "POST", Route: "/x"})
		answered(r, "banned", "", time.Millisecond, admission.Request{})
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		frames, before := opened(t, f)
		if len(before.Frames) != 1 || before.Frames[0].Answers[Admitted] != 1 || before.Frames[0].WindowMS != 1000 {
			t.Errorf("history is %+v", before)
		}
		answered(r, "banned", "", time.Millisecond, admission.Request{})
		one, two := next(t, frames), next(t, frames)
		if one.Seq != 2 || two.Seq != 3 || one.WindowMS != 1000 || len(one.Answers) != 1 || one.Answers["banned"] != 1 || len(two.Answers) != 0 {
			t.Errorf("%+v\n%+v", one, two)
		}
		if len(one.Rules) != 2 || one.Rules[0].Name != "second" {
			t.Errorf("rules in force: %+v", one.Rules)
		}
		if it := (*two.Sales.Value)[0].Items[0]; it.PerSecond != 5 || it.SoldOutIn != int64(*it.Free)*200 {
			t.Errorf("%+v", it)
		}
		f.close(frames)
		asked := asks.Load()
		time.Sleep(10 * time.Second)
		if synctest.Wait(); asks.Load() != asked+2 {
			t.Errorf("asked %d times in ten seconds without a page", asks.Load()-asked)
		}
		if frames, before = opened(t, f); len(before.Stock) != 1 || len(before.Stock[0].Stock) < 4 {
			t.Errorf("of the stock a new page is told %+v", before.Stock)
		}
		f.close(frames)
	})
}

// A source that hangs or fails does not hold the others back: what it said last is shown, with its age and what is wrong.
func TestASourceThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hang atomic.Bool
		var questions atomic.Int32
		f, stop := feeding(t, NewRecorder(), Sources{
			Queue: func(ctx context.Context) (Queue, error) {
				questions.Add(1)
				if hang.Load() {
					<-ctx.Done()
					return Queue{}, ctx.Err()
				}
				return Queue{Waiting: 7}, nil
			},
			Bans:   func(context.Context) (Bans, error) { return Bans{}, errors.New(strings.Repeat("away ", 1000)) },
			Health: func(context.Context) ([]string, error) { return []string{"redis does not answer"}, nil },
		})
		defer stop()
		frames, _ := opened(t, f)
		defer f.close(frames)
		first := next(t, frames)
		if first.Queue.Value.Waiting != 7 || first.Queue.AgeMS != 0 || len(first.Process.Degraded) != 1 {
			t.Errorf("%+v", first)
		}
		if first.Bans == nil || first.Bans.Value != nil || !strings.HasPrefix(first.Bans.Error, "away") || len(first.Bans.Error) > 2*mostReason {
			t.Errorf("bans: %+v", first.Bans)
		}
		hang.Store(true)
		questions.Store(0)
		var last Frame
		for range 4 {
			last = next(t, frames)
		}
		if last.Seq != 5 || last.WindowMS != 1000 || last.Queue.Value.Waiting != 7 || last.Queue.AgeMS < 3000 || questions.Load() != 1 {
			t.Errorf("after %d questions: %+v %+v", questions.Load(), last, last.Queue)
		}
		for range 4 {
			last = next(t, frames)
		}
		if last.Queue.Error == "" {
			t.Error("it does not say what is wrong")
		}
	})
}

// A page that does not read does not block the feed, and the number of pages is bounded.
func TestPagesThatCannotKeepUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := feeding(t, NewRecorder(), Sources{})
		defer stop()
		slow, _ := opened(t, f)
		quick, _ := opened(t, f)
		for seq := range int64(5) {
			if frame := next(t, quick); frame.Seq != seq+1 {
				t.Errorf("frame %d, want %d", frame.Seq, seq+1)
			}
		}
		if one, two := next(t, slow), next(t, slow); one.Seq != 1 || two.Seq != 2 {
			t.Errorf("it has kept %d and %d", one.Seq, two.Seq)
		}
		if three := next(t, slow); three.Seq != 6 {
			t.Errorf("then comes %d", three.Seq)
		}
		all := []chan []byte{slow, quick}
		for len(all) < maxPages {
			frames, _ := opened(t, f)
			all = append(all, frames)
		}
		if _, _, ok := f.open(); ok {
			t.Error("there are too many pages")
		}
		for _, frames := range all {
			f.close(frames)
		}
		if frames, _, ok := f.open(); !ok {
			t.Error("now there is room")
		} else {
			f.close(frames)
		}
	})
}

// Whatever there is, a frame is small.
func TestAFrameIsBounded(t *testing.T) {
	long := strings.Repeat("\u202e<>", 5000)
	var (
		sales      []Sale
		semaphores []Semaphore
		queue      Queue
		frame      Frame
		bans       = Bans{Count: 5000}
	)
	states := []string{"closed", "ended", "scheduled", "open", "paused", "recovering"}
	for i := range 600 {
		sales = append(sales, Sale{Sale: fmt.Sprintf("%064d", i), State: states[i%len(states)], Items: make([]Item, 1000)})
		frame.Rules = append(frame.Rules, Rule{Name: fmt.Sprintf("%064d", i)})
		queue.Dead = append(queue.Dead, Dead{Reason: long})
		bans.Bans = append(bans.Bans, Ban{Value: strings.Repeat("v", 255), Reason: long})
		semaphores = append(semaphores, Semaphore{Name: "s", Holders: make([]Holder, 1000)})
		frame.Process.Degraded = append(frame.Process.Degraded, "the sale is recovering")
	}
	for i := range semaphores[0].Holders {
		semaphores[0].Holders[i].Holder = long
	}
	asked := sales
	frame.Sales, frame.Queue = &Part[[]Sale]{Value: &sales}, &Part[Queue]{Value: &queue}
	frame.Semaphores, frame.Bans = &Part[[]Semaphore]{Value: &semaphores}, &Part[Bans]{Value: &bans}
	frame.bound()
	encoded, err := json.Marshal(frame)
	if err != nil || len(encoded) > 400<<10 {
		t.Errorf("%d bytes, %v", len(encoded), err)
	}
	if len(sales) != MostSales || frame.MoreSales != 600-MostSales || sales[0].MoreItems != 1000-mostItems || frame.MoreRules != 600-mostRules {
		t.Errorf("%d sales and %d more", len(sales), frame.MoreSales)
	}
	if first := sales[0]; first.State != "open" || asked[0].State != "closed" {
		t.Errorf("what goes on is first: %s; and what was answered stays: %s", first.State, asked[0].State)
	}
}

// Parts without an answer are missing, and empty lists are encoded as lists.
func TestAFrameOfNothing(t *testing.T) {
	frame := Frame{
		Sales: &Part[[]Sale]{Error: "away"}, Queue: &Part[Queue]{Value: &Queue{}}, Semaphores: &Part[[]Semaphore]{Value: new([]Semaphore)},
		Bans: &Part[Bans]{Value: &Bans{}}, Answers: map[string]uint64{}, Latest: []Answer{},
	}
	frame.bound()
	encoded, err := json.Marshal(frame)
	if err != nil || strings.Contains(string(encoded), "null") || !strings.Contains(string(encoded), `"sales":{"age_ms":0,"error":"away"}`) {
		t.Errorf("%v: %s", err, encoded)
	}
}

// On a slow machine there are fewer frames than seconds, and five minutes are still five minutes.
func TestTheHistoryIsOfFiveMinutes(t *testing.T) {
	f := NewFeed(NewRecorder(), Sources{}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	start := time.Unix(1_800_000_000, 0)
	for i := range 1000 {
		f.publish(&Frame{At: start.Add(time.Duration(i) * 3 * time.Second)}, false)
	}
	if n := len(f.history); n != 101 || f.history[n-1].At.Sub(f.history[0].At) != kept {
		t.Errorf("%d frames, from %v to %v", n, f.history[0].At, f.history[n-1].At)
	}
}

// What the database counts is added to the sales, and it is asked for a twentieth of the time at most.
func TestTotalsOfTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sold := time.Now().UTC()
		var asks atomic.Int32
		r := NewRecorder()
		f, stop := feeding(t, r, Sources{
			Process: func() Process { return Process{Degraded: []string{"a fault"}, Warnings: []string{"a warning"}} },
			Health:  func(context.Context) ([]string, error) { return []string{"another fault"}, nil },
			Sales: func(context.Context) ([]Sale, error) {
				return []Sale{
					{Sale: "flash", State: "open", Items: []Item{{Item: "shoe", Stock: 9, Free: new(0)}, {Item: "hat", Stock: 9, Free: new(1)}}},
					{Sale: "next", State: "scheduled", Items: []Item{{Item: "cap", Stock: 9, Free: new(0)}}},
				}, nil
			},
			Totals: func(context.Context) ([]Totals, error) {
				time.Sleep(500 * time.Millisecond)
				if asks.Add(1) > 1 {
					return nil, errors.New("away") // which costs as much
				}
				items := map[string]ItemTotals{"shoe": {Cancelled: 1, Expired: 2, Latest: sold}, "hat": {Latest: sold}}
				return []Totals{{Sale: "flash", Orders: Orders{Paid: 7, Refunds: 3}, Items: items}}, nil
			},
		})
		defer stop()
		frames, _ := opened(t, f)
		answered(r, Admitted, "", 3*time.Millisecond, admission.Request{})
		if first := next(t, frames); (*first.Sales.Value)[0].Orders != nil || first.Latency == nil || first.Latency.P50US != 3072 {
			t.Errorf("%+v, and %+v", first, first.Latency)
		}
		frame := next(t, frames)
		if got, want := fmt.Sprint(frame.Process.Degraded, frame.Process.Warnings), "[a fault another fault a warning] [a warning]"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		flash, later := (*frame.Sales.Value)[0], (*frame.Sales.Value)[1]
		if flash.Orders == nil || *flash.Orders != (Orders{AgeMS: 500, Paid: 7, Refunds: 3}) || later.Orders != nil || frame.Latency != nil {
			t.Errorf("%+v\n%+v", flash.Orders, later)
		}
		shoe, hat := flash.Items[0], flash.Items[1]
		if shoe.Cancelled != 1 || shoe.Expired != 2 || shoe.SoldOutAt == nil || !shoe.SoldOutAt.Equal(sold) || hat.SoldOutAt != nil || later.Items[0].SoldOutAt != nil {
			t.Errorf("%+v\n%+v", shoe, hat)
		}
		for range 28 {
			frame = next(t, frames)
		}
		if orders := (*frame.Sales.Value)[0].Orders; orders == nil || orders.AgeMS < 28_000 {
			t.Errorf("the last numbers are %+v", orders)
		}
		if n := asks.Load(); n != 3 { // every 10.5 s
			t.Errorf("the database was asked %d times in 30 s", n)
		}
	})
}
