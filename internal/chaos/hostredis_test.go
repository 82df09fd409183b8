package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// rdb returns a client of the master that the sentinels name, or of the cluster.
func (h *hosts) rdb() redis.UniversalClient {
	o := &redis.UniversalOptions{Password: h.password, DialTimeout: time.Second, ReadTimeout: 2 * time.Second, DialerRetries: 1, MaxRetries: 3, IsClusterMode: !h.sentinel}
	if h.sentinel {
		o.MasterName = "sale"
		for _, host := range h.all("sentinel") {
			o.Addrs = append(o.Addrs, h.addr(host)+":26379")
		}
	} else {
		o.Addrs = h.redisAddrs()
	}
	return redis.NewUniversalClient(o)
}

func (h *hosts) redisAddrs() (addrs []string) {
	for _, host := range h.all("redis") {
		addrs = append(addrs, h.addr(host)+":6379")
	}
	return addrs
}

// server returns a client of one Redis host; the caller closes it.
func (h *hosts) server(host string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: h.addr(host) + ":6379", Password: h.password, DialTimeout: time.Second, ReadTimeout: 5 * time.Second, DialerRetries: 1, MaxRetries: -1, PoolSize: 2})
}

// do runs a command on one Redis host.
func (h *hosts) do(ctx context.Context, host string, args ...any) (string, error) {
	rdb := h.server(host)
	defer rdb.Close()
	text, err := rdb.Do(ctx, args...).Text()
	if err != nil {
		return "", fmt.Errorf("%s: %v: %w", host, args[0], err)
	}
	return text, nil
}

// member is a node of the cluster, as another one sees it.
type member struct {
	host, id, master string // master is an id, "" of a master
	fails            bool
	linked           bool
	slots            [][2]int
}

func (m member) has(slot int) bool {
	return slices.ContainsFunc(m.slots, func(s [2]int) bool { return s[0] <= slot && slot <= s[1] })
}

// members returns the nodes as one of them sees them.
func (h *hosts) members(ctx context.Context, host string) (all []member, err error) {
	text, err := h.do(ctx, host, "CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		field := strings.Fields(line)
		if len(field) < 8 {
			continue
		}
		m := member{id: field[0], fails: strings.Contains(field[2], "fail") || strings.Contains(field[2], "noaddr"), linked: field[7] == "connected"}
		addr, _, _ := strings.Cut(field[1], ":")
		for name := range lastOctets {
			if h.addr(name) == addr {
				m.host = name
			}
		}
		if field[3] != "-" {
			m.master = field[3]
		}
		for _, text := range field[8:] {
			first, last, isRange := strings.Cut(text, "-")
			from, err := strconv.Atoi(first)
			if err != nil {
				continue // a slot that is being moved
			}
			to := from
			if isRange {
				to, _ = strconv.Atoi(last) // a number, by the format
			}
			m.slots = append(m.slots, [2]int{from, to})
		}
		all = append(all, m)
	}
	return all, nil
}

// view returns the nodes as a node sees them that is in the majority.
func (h *hosts) view(ctx context.Context) (all []member, err error) {
	var errs error
	for _, host := range h.all("redis") {
		if !h.up(host) {
			continue
		}
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		info, err := h.do(attempt, host, "CLUSTER", "INFO")
		if err == nil && strings.Contains(info, "cluster_state:ok") {
			all, err = h.members(attempt, host)
		}
		cancel()
		if err == nil && len(all) > 0 {
			return all, nil
		}
		errs = errors.Join(errs, err)
	}
	return nil, errors.Join(errors.New("no Redis sees a cluster that works"), errs)
}

// pairOf returns the hosts of a slot's master and of its replica, both of which work.
func (h *hosts) pairOf(ctx context.Context, slot int) (master, replica member, err error) {
	all, err := h.view(ctx)
	if err != nil {
		return member{}, member{}, errors.Join(errNothingThere, err)
	}
	for _, m := range all {
		if m.master == "" && m.has(slot) && !m.fails {
			master = m
		}
	}
	for _, m := range all {
		if m.master == master.id && master.id != "" && !m.fails && m.linked && h.up(m.host) {
			info, err := h.do(ctx, m.host, "INFO", "replication")
			if err == nil && strings.Contains(info, "master_link_status:up") {
				replica = m
			}
		}
	}
	if master.host == "" || replica.host == "" || !h.up(master.host) {
		return member{}, member{}, errNothingThere
	}
	return master, replica, nil
}

// pair is pairOf the item, or the servers under the sentinels.
func (h *hosts) pair(ctx context.Context) (master, replica string, err error) {
	if !h.sentinel {
		m, r, err := h.pairOf(ctx, itemSlot)
		return m.host, r.host, err
	}
	pair := []string{"redis-1", "redis-2"}
	for i, host := range pair {
		info, err := h.do(ctx, host, "INFO", "replication")
		if err == nil && strings.Contains(info, "role:master") && strings.Contains(info, "state=online") {
			return host, pair[1-i], nil
		}
	}
	return "", "", errNothingThere
}

// itemSlot is the slot of the round's item, by the algorithm of Redis Cluster.
var itemSlot = slotOf(sale + ":" + item)

// slotOf is CRC16 (XMODEM) modulo the number of slots.
func slotOf(tag string) int {
	crc := uint16(0)
	for i := range len(tag) {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc % 16384)
}

// redisWhole reports whether every master has a replica that follows it, in the eyes of all nodes.
func (h *hosts) redisWhole(ctx context.Context) error {
	if h.sentinel {
		if _, _, err := h.pair(ctx); err != nil {
			return err
		}
		for _, host := range h.all("sentinel") {
			rdb := redis.NewClient(&redis.Options{Addr: h.addr(host) + ":26379", DialerRetries: 1, MaxRetries: -1})
			info, err := rdb.Info(ctx, "sentinel").Result()
			rdb.Close()
			if err != nil || !strings.Contains(info, "status=ok") || !strings.Contains(info, "slaves=1,sentinels=3") {
				return fmt.Errorf("%s sees %s, %w", host, info, err)
			}
		}
		return nil
	}
	for _, host := range h.all("redis") {
		if host == "redis-7" {
			continue
		}
		info, err := h.do(ctx, host, "CLUSTER", "INFO")
		if err != nil {
			return err
		}
		if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_slots_ok:16384") {
			return fmt.Errorf("%s sees no complete cluster: %s", host, info)
		}
		all, err := h.members(ctx, host)
		if err != nil {
			return err
		}
		masters, replicas := 0, map[string]bool{}
		for _, m := range all {
			switch {
			case m.fails && len(m.slots) == 0:
				continue // a node that has lost its disk, until it is forgotten
			case m.fails || !m.linked:
				return fmt.Errorf("%s does not reach %s", host, m.host)
			case m.master != "":
				replicas[m.master] = true
			case len(m.slots) > 0:
				masters++
			}
		}
		if masters != 3 || len(replicas) != 3 {
			return fmt.Errorf("%s sees %d masters, %d with a replica", host, masters, len(replicas))
		}
		info, err = h.do(ctx, host, "INFO", "replication")
		if err != nil || strings.Contains(info, "master_link_status:down") {
			return fmt.Errorf("%s has no link to its master, %w", host, err)
		}
	}
	return nil
}
