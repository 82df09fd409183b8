package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tidegate/tidegate/bench/stack"
)

const (
	largeName = "large"
	largePart = 50_000          // places that join in one statement
	largeRate = 600             // turns a minute
	drawStart = 2 * time.Second // how long before T0 the start is set
)

// A largeRoom is what a room costs beside requests.
type largeRoom struct {
	Places     int64              `json:"places"`
	Drawn      time.Duration      `json:"drawn_ns"` // from the start until the API tells places their positions
	CPU        map[string]float64 `json:"percent_of_a_core"`
	Memory     int64              `json:"memory_of_the_api_bytes"`
	PeakMemory int64              `json:"peak_memory_of_the_api_bytes"`
	Redis      int64              `json:"memory_of_redis_bytes"` // more than without the room
}

// largeRoom measures a draw of many places, and then the room without requests. The places are written by SQL: joining is measured
// by rooms.
func (r *run) largeRoom(ctx context.Context) error {
	running, err := r.stacks[0].Start(ctx, r.servers, stack.Options{Workers: stack.None})
	if err != nil {
		return err
	}
	defer running.Stop()
	before, err := r.servers.RedisMemory(ctx)
	if err != nil {
		return err
	}
	url := "http://" + running.Internal() + "/v1/rooms/" + largeName
	now := time.Now().UTC()
	body := fmt.Sprintf(`{"mode":"draw","gather_at":%q,"starts_at":%q,"rate_per_min":%d}`,
		now.Add(-time.Minute).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339), largeRate)
	if status, answer, err := stack.Call(ctx, http.MethodPut, url, body); err != nil || status != http.StatusCreated {
		return errors.Join(fmt.Errorf("PUT %s: %d %s", url, status, answer), err)
	}
	db := r.servers.Database
	for n := int64(0); n < r.size.places; {
		last := min(n+largePart, r.size.places)
		if _, err := db.Exec(ctx, `INSERT INTO waiting_places (room, seq, lane, lane_seq, subject, account, quantity, joined_at)
			SELECT $1, n, '', n, md5(n::text), 'user-' || n, 1, 1 FROM generate_series($2::bigint, $3::bigint) AS n`, largeName, n+1,
			last); err != nil {
			return err
		}
		tail := fmt.Sprintf(`[{"joined":%d,"gathered":%d}]`, last, last)
		if _, err := db.Exec(ctx, `UPDATE waiting_tails SET joined = $2, gathered = $2, lanes = $3 WHERE room = $1`, largeName, last,
			tail); err != nil {
			return err
		}
		n = last
	}
	var starts int64 // ms
	if err := db.QueryRow(ctx, `UPDATE waiting_rooms SET starts_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $2 WHERE room = $1
		RETURNING starts_at`, largeName, drawStart.Milliseconds()).Scan(&starts); err != nil {
		return err
	}
	room := largeRoom{Places: r.size.places, CPU: map[string]float64{}}
	for {
		if drawn, err := drawnPlaces(ctx, url); err != nil {
			return err
		} else if drawn == r.size.places {
			break
		}
		if time.Since(time.UnixMilli(starts)) > commitWithin {
			return fmt.Errorf("%d places are not drawn after %v", r.size.places, commitWithin)
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	room.Drawn = time.Since(time.UnixMilli(starts))
	if err := pause(ctx, min(settled, 2*r.size.idle)); err != nil {
		return err
	}
	s := &shop{Running: running, servers: r.servers}
	from, start := s.meter(), time.Now()
	if err := pause(ctx, 2*r.size.idle); err != nil {
		return err
	}
	to, took := s.meter(), time.Since(start)
	for name := range to {
		room.CPU[name] = 100 * (to[name] - from[name]).Seconds() / took.Seconds()
	}
	delete(room.CPU, "generator")
	if room.Memory, room.PeakMemory, err = running.APIs[0].Memory(); err != nil {
		return err
	}
	after, err := r.servers.RedisMemory(ctx)
	if err != nil {
		return err
	}
	room.Redis = after - before
	r.keep("large room", room)
	tab := newTable("places", "s until they are drawn", "API % of a core", "Postgres % of a core", "Redis % of a core", "API MB",
		"at its peak", "Redis MB more")
	mb := func(bytes int64) string { return one(float64(bytes) / 1e6) }
	tab.add(whole(float64(room.Places)), fmt.Sprintf("%.2f", room.Drawn.Seconds()), one(room.CPU["API"]), one(room.CPU["Postgres"]),
		one(room.CPU["Redis"]),
		mb(room.Memory), mb(room.PeakMemory), mb(room.Redis))
	r.print(tab, fmt.Sprintf("A large waiting room that gives %d turns a minute, without requests", largeRate))
	return nil
}

// drawnPlaces returns how many places have been drawn in a room.
func drawnPlaces(ctx context.Context, url string) (int64, error) {
	status, answer, err := stack.Call(ctx, http.MethodGet, url, "")
	var room struct {
		Draw struct {
			N int64 `json:"n"`
		} `json:"draw"`
	}
	if err == nil {
		err = json.Unmarshal(answer, &room)
	}
	if err != nil || status != http.StatusOK {
		return 0, errors.Join(fmt.Errorf("GET %s: %d %s", url, status, answer), err)
	}
	return room.Draw.N, nil
}

// pause waits unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
