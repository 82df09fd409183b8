package main

import (
	"math"
	"math/rand/v2"
	"time"
)

const (
	step  = time.Millisecond
	steps = int(10 * time.Second / step)
)

// A model is one crowd, and the installation it comes to. Costs are CPU times on one core.
type model struct {
	seed     uint64
	nodes    int           // APIs behind a balancer that sends each request to any of them
	lifetime time.Duration // of a node's cached item and of a remembered denial; 0: nothing is remembered
	buyers   int
	halfIn   time.Duration // half of the buyers have come; the others follow at an exponentially falling rate
	again    float64       // share of refused buyers who try again, after 1 to 3 s
	scripts  float64       // share of buyers that are scripts: one request each 100 ms, whatever the answer
	stock    int
	limit    int           // orders that a rule admits for each user in 10 s
	order    time.Duration // of a node's core for an order that Redis decides
	refusal  time.Duration // of a node's core for an answer from memory
	cores    int           // of a node
	rules    time.Duration // of Redis for the rules of one request, in a script that requests share
	reserve  time.Duration // of Redis for one reservation
	read     time.Duration // of Redis for one refresh of a node's cached item
}

// usual is the crowd of docs/scale.md. The costs are those of docs/performance.md.
func usual() model {
	return model{
		seed: 1, nodes: 8, lifetime: 200 * time.Millisecond,
		buyers: 1_000_000, halfIn: time.Second, again: 0.5, scripts: 0.01, stock: 10_000, limit: 5,
		order: 151 * time.Microsecond, refusal: 60 * time.Microsecond, cores: 4,
		rules: 23 * time.Microsecond, reserve: 34 * time.Microsecond, read: 100 * time.Microsecond,
	}
}

// scripted is a crowd of scripts alone, in a sale that does not end: what denials cost.
func scripted() model {
	m := usual()
	m.buyers, m.scripts, m.halfIn, m.stock = 10_000, 1, 100*time.Millisecond, math.MaxInt
	return m
}

// A result is what happened in each step.
type result struct {
	redis   []time.Duration // CPU time of Redis; it has one core for scripts
	asked   []int           // requests whose answer took Redis
	memory  []int           // requests that a node answered alone
	shed    []int           // requests that were refused with 503, because the node or Redis had no time left
	soldOut time.Duration   // when the last unit went; 0: never
}

// sum returns the total of a series.
func sum[T int | time.Duration](series []T) (total T) {
	for _, n := range series {
		total += n
	}
	return total
}

// busiest returns the share of one core that Redis needed in its busiest 100 ms.
func (r *result) busiest() float64 {
	const window = int(100 * time.Millisecond / step)
	most := time.Duration(0)
	for i := 0; i+window <= len(r.redis); i += window {
		most = max(most, sum(r.redis[i:i+window]))
	}
	return float64(most) / float64(100*time.Millisecond)
}

// A buyer is somebody who sends requests.
type buyer struct {
	script bool
	orders uint8 // that the rule counted
}

// A node is what one API remembers.
type node struct {
	soldOutAt int             // step of the newest sold-out reply; -1: none
	denied    map[int32]int   // buyer → step until which a denial is remembered
	busy      []time.Duration // CPU time left in each step
	retry     float64         // step at which the next refused request is to come again
}

// run lets the crowd come. It is deterministic.
func (m model) run() *result {
	r := &result{redis: make([]time.Duration, steps), asked: make([]int, steps), memory: make([]int, steps), shed: make([]int, steps)}
	random := rand.New(rand.NewPCG(m.seed, uint64(m.nodes)))
	buyers := make([]buyer, m.buyers)
	coming := make([][]int32, steps)
	at := func(i int, id int32) {
		if i < steps {
			coming[i] = append(coming[i], id)
		}
	}
	rate := math.Ln2 / m.halfIn.Seconds()
	for id := range buyers {
		buyers[id].script = random.Float64() < m.scripts
		at(int(random.ExpFloat64()/rate*float64(time.Second/step)), int32(id))
	}
	nodes := make([]*node, m.nodes)
	for i := range nodes {
		nodes[i] = &node{soldOutAt: -1, denied: make(map[int32]int)}
	}
	free, remembered := m.stock, int(m.lifetime/step)
	for i := range steps {
		for _, n := range nodes {
			n.busy = append(n.busy, step*time.Duration(m.cores))
		}
		left := step // of Redis
		random.Shuffle(len(coming[i]), func(a, b int) { coming[i][a], coming[i][b] = coming[i][b], coming[i][a] })
		for _, id := range coming[i] {
			b, n := &buyers[id], nodes[random.IntN(len(nodes))]
			next := 0 // when the buyer tries again; 0: not
			if random.Float64() < m.again {
				next = i + 1000 + random.IntN(2000)
			}
			cpu := &n.busy[i]
			cachedSoldOut := n.soldOutAt >= 0 && i-n.soldOutAt < remembered
			switch {
			case cachedSoldOut && *cpu >= m.refusal:
				*cpu -= m.refusal
				r.memory[i]++
				if i-n.soldOutAt >= remembered/2 { // a request in the background refreshes it before it is too old
					n.soldOutAt = i
					left -= m.read
					r.redis[i] += m.read
				}
			case n.denied[id] > i && *cpu >= m.refusal:
				*cpu -= m.refusal
				r.memory[i]++
			case *cpu < m.order || left < m.rules+m.reserve:
				r.shed[i]++
				next = n.retryAfter(i, m)
			default:
				*cpu -= m.order
				left -= m.rules
				r.redis[i] += m.rules
				r.asked[i]++
				if int(b.orders) >= m.limit {
					n.denied[id] = i + min(remembered, 1000)
					break
				}
				b.orders++
				left -= m.reserve
				r.redis[i] += m.reserve
				if free == 0 {
					n.soldOutAt = i
					break
				}
				next = 0
				if free--; free == 0 {
					r.soldOut = time.Duration(i) * step
				}
			}
			if b.script {
				next = i + 100
			}
			if next > i {
				at(next, id)
			}
		}
		coming[i] = nil
	}
	return r
}

// retryAfter returns the step of the next slot for a request that a node refuses: from a second on, at half of the pace at which the node
// decides, and at most 30 s away.
func (n *node) retryAfter(i int, m model) int {
	pace := float64(time.Duration(m.cores)*step) / float64(m.order) / 2
	n.retry = max(n.retry+1/pace, float64(i+1000))
	n.retry = min(n.retry, float64(i+30_000))
	return int(n.retry)
}
