package main

import (
	"testing"
	"time"
)

// small is a crowd of which a test needs several.
func small() model {
	m := usual()
	m.buyers, m.stock = 20_000, 500
	return m
}

func TestSimulation(t *testing.T) {
	m := small()
	r := m.run()
	if r.soldOut == 0 || sum(r.asked) < m.stock {
		t.Fatalf("sold out after %v, %d requests decided by Redis for %d units", r.soldOut, sum(r.asked), m.stock)
	}
	again := m.run()
	if again.soldOut != r.soldOut || sum(again.redis) != sum(r.redis) {
		t.Error("the same seed gave another result")
	}
	m.seed++
	if other := m.run(); sum(other.asked) == sum(r.asked) && sum(other.memory) == sum(r.memory) {
		t.Error("another seed gave the same result")
	}
}

// Without memory every request needs Redis; with it, Redis rests when everything is sold.
func TestMemorySparesRedis(t *testing.T) {
	with, without := small(), small()
	without.lifetime = 0
	a, b := with.run().afterwards(), without.run().afterwards()
	if a <= 0 || b < 10*a {
		t.Errorf("after the sell-out Redis needs %.4f of a core with memory and %.4f without", a, b)
	}
}

// Nothing takes more time than there is: what is beyond it is refused.
func TestTimeIsBounded(t *testing.T) {
	m := small()
	m.buyers, m.nodes, m.cores, m.halfIn = 200_000, 2, 1, 100*time.Millisecond
	r := m.run()
	for i, busy := range r.redis {
		if busy > step+m.read*time.Duration(m.nodes) {
			t.Fatalf("step %d: Redis was busy for %v of %v", i, busy, step)
		}
	}
	if sum(r.shed) == 0 {
		t.Error("nobody was refused")
	}
}
