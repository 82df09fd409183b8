package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/periodic"
)

// awaitMaster waits until a host is the master of its item.
func (h *hosts) awaitMaster(ctx context.Context, host string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for began := time.Now(); ; {
		info, err := h.do(ctx, host, "INFO", "replication")
		if err == nil && strings.Contains(info, "role:master") {
			h.t.Logf("redis: %s is master after %.1fs", host, time.Since(began).Seconds())
			return nil
		}
		if !periodic.Pause(ctx, 50*time.Millisecond) {
			return fmt.Errorf("%s was not promoted: %s, %w", host, info, err)
		}
	}
}

// follow makes an empty node the replica of the master that works for a slot, and the others forget its former id.
func (h *hosts) follow(ctx context.Context, host, formerID string, slot int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := h.tryFollow(ctx, host, formerID, slot)
		if err == nil {
			return nil
		}
		if !periodic.Pause(ctx, 300*time.Millisecond) {
			return fmt.Errorf("%s follows nobody: %w", host, err)
		}
	}
}

func (h *hosts) tryFollow(ctx context.Context, host, formerID string, slot int) error {
	all, err := h.view(ctx)
	if err != nil {
		return err
	}
	for _, m := range all {
		if m.host == host || m.fails || m.host == "" {
			continue
		}
		_, _ = h.do(ctx, m.host, "CLUSTER", "FORGET", formerID) // it may have been forgotten
		if _, err := h.do(ctx, host, "CLUSTER", "MEET", h.addr(m.host), "6379"); err != nil {
			return err
		}
	}
	for _, m := range all {
		if m.master == "" && m.has(slot) && m.host != host {
			if _, err := h.do(ctx, host, "CLUSTER", "REPLICATE", m.id); err != nil {
				return err
			}
			info, err := h.do(ctx, host, "INFO", "replication")
			if err == nil && !strings.Contains(info, "master_link_status:up") {
				err = errors.New("its master has not sent everything")
			}
			return err
		}
	}
	return errors.New("no master")
}

// moveSlot moves a slot from one master to another, and stops for a while when half of its keys have moved.
func (h *hosts) moveSlot(ctx context.Context, slot int, from, to member, half time.Duration) (keys int, err error) {
	if _, err := h.do(ctx, to.host, "CLUSTER", "SETSLOT", slot, "IMPORTING", from.id); err != nil {
		return 0, err
	}
	if _, err := h.do(ctx, from.host, "CLUSTER", "SETSLOT", slot, "MIGRATING", to.id); err != nil {
		return 0, err
	}
	source := h.server(from.host)
	defer source.Close()
	total, err := source.ClusterCountKeysInSlot(ctx, slot).Result()
	if err != nil {
		return 0, err
	}
	for {
		names, err := source.ClusterGetKeysInSlot(ctx, slot, 10).Result()
		if err != nil {
			return keys, err
		}
		if len(names) == 0 {
			break
		}
		if half > 0 && keys+len(names) > int(total)/2 {
			names = names[:max(1, int(total)/2-keys)]
		}
		args := []any{"MIGRATE", h.addr(to.host), "6379", "", 0, 5000, "AUTH", h.password, "KEYS"}
		for _, name := range names {
			args = append(args, name)
		}
		if err := source.Do(ctx, args...).Err(); err != nil {
			return keys, err
		}
		if keys += len(names); half > 0 && keys >= int(total)/2 {
			periodic.Pause(ctx, half)
			half = 0
		}
	}
	// The new master first: if the old one is asked meanwhile, it must not take the slot for its own again.
	order := []string{to.host, from.host}
	all, err := h.view(ctx)
	if err != nil {
		return keys, err
	}
	for _, m := range all {
		if m.master == "" && !m.fails && !slices.Contains(order, m.host) && m.host != "" {
			order = append(order, m.host)
		}
	}
	for _, host := range order {
		if _, err := h.do(ctx, host, "CLUSTER", "SETSLOT", slot, "NODE", to.id); err != nil {
			return keys, err
		}
	}
	return keys, nil
}

// meet makes an empty node a member that all others have a link to.
func (h *hosts) meet(ctx context.Context, host string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		all, err := h.view(ctx)
		known := 0
		for _, m := range all {
			if m.host == host || m.host == "" {
				continue
			}
			_, err = h.do(ctx, host, "CLUSTER", "MEET", h.addr(m.host), "6379")
			theirs, e := h.members(ctx, m.host)
			if e == nil && slices.ContainsFunc(theirs, func(m member) bool { return m.host == host && m.linked && !m.fails }) {
				known++
			}
		}
		info, _ := h.do(ctx, host, "CLUSTER", "INFO")
		if known > 0 && known >= len(all)-1 && strings.Contains(info, "cluster_state:ok") {
			return nil
		}
		if !periodic.Pause(ctx, 200*time.Millisecond) {
			return fmt.Errorf("%s is no member: %w", host, err)
		}
	}
}

// masterFor returns the master of a shard as it is now: the former master, or the replica that has replaced it.
func (h *hosts) masterFor(ctx context.Context, former member) (member, error) {
	all, err := h.view(ctx)
	if err != nil {
		return member{}, err
	}
	for _, m := range all {
		if m.id == former.id && m.master == "" && !m.fails {
			return m, nil
		}
	}
	for _, m := range all {
		if m.master == "" && !m.fails && len(m.slots) > 0 && m.host != "redis-7" {
			return m, nil
		}
	}
	return member{}, errors.New("no master")
}

// forget removes an empty node from the cluster, with its host.
func (h *hosts) forget(ctx context.Context, node member) error {
	all, err := h.view(ctx)
	if err != nil {
		return err
	}
	for _, m := range all {
		if m.host != node.host && m.host != "" {
			if _, err := h.do(ctx, m.host, "CLUSTER", "FORGET", node.id); err != nil {
				return err
			}
		}
	}
	if err := h.engine(ctx, "rm -f -v", node.host); err != nil {
		return err
	}
	h.ids.Delete(node.host)
	_, err = h.command(ctx, "docker", "volume", "rm", h.project+"_"+node.host)
	return err
}
