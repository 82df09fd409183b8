package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/recent"
	"github.com/tidegate/tidegate/waitingroom"
)

// Rooms is the source of the metrics: a *waitingroom.Service.
type Rooms interface {
	// Rooms returns all rooms. Operators choose their names, so there are few.
	Rooms(ctx context.Context) ([]waitingroom.Status, error)
}

// Rooms adds the metrics of waiting rooms.
func (m *Metrics) Rooms(r Rooms) {
	p := waitingRooms{recent.New(askWithin, r.Rooms)}
	m.registry.MustRegister(p)
	m.troubles = append(m.troubles, p.troubles)
}

// waitingRooms collects the counts in the database. All processes of an installation report the same numbers.
type waitingRooms struct {
	all *recent.Source[[]waitingroom.Status]
}

func (p waitingRooms) troubles() []string {
	rooms, _ := latest(p.all)
	var all []string
	for i := range rooms {
		if rooms[i].Phase == waitingroom.PhaseRecovering {
			all = append(all, "waiting room "+rooms[i].Room+" stands still: its stock cannot be read")
		}
	}
	return all
}

var (
	roomJoined = describe("room_joined_total", "Places given in a lane of a waiting room that is not closed.", "room", "lane")
	roomServed = describe("room_served_total", "Positions of a lane that have had their turn, including places that had left.", "room",
		"lane")
	roomWaiting = describe("room_waiting", "Places of a lane that have not had their turn.", "room", "lane")
	roomBrake   = describe("room_brake", "Which part of its turns a waiting room gives, because orders wait too long for their commit; 1: "+
		"all.", "room")
	roomPhase = describe("room_phase", "1 for the phase of a waiting room; no series for a closed room.", "room", "phase")
)

// Describe implements prometheus.Collector.
func (p waitingRooms) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{roomJoined, roomServed, roomWaiting, roomBrake, roomPhase} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. While the database does not answer, the metrics are left out instead of repeating old values.
func (p waitingRooms) Collect(ch chan<- prometheus.Metric) {
	rooms, _ := found(p.all)
	for i := range rooms {
		s := &rooms[i]
		if s.Phase == waitingroom.PhaseClosed {
			continue
		}
		for _, l := range s.ByLane { // the lane of a room without lanes has no name
			ch <- prometheus.MustNewConstMetric(roomJoined, prometheus.CounterValue, float64(l.Joined), s.Room, l.Name)
			ch <- prometheus.MustNewConstMetric(roomServed, prometheus.CounterValue, float64(l.Served), s.Room, l.Name)
			ch <- prometheus.MustNewConstMetric(roomWaiting, prometheus.GaugeValue, float64(l.Waiting), s.Room, l.Name)
		}
		ch <- prometheus.MustNewConstMetric(roomBrake, prometheus.GaugeValue, s.Brake, s.Room)
		ch <- prometheus.MustNewConstMetric(roomPhase, prometheus.GaugeValue, 1, s.Room, string(s.Phase))
	}
}
