package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// inside runs a program of this machine in the network namespace of a host, whose image needs no tools.
func (h *hosts) inside(ctx context.Context, host string, args ...string) (string, error) {
	id, err := h.container(ctx, host)
	if err != nil {
		return "", err
	}
	pid, err := h.command(ctx, "docker", "inspect", "-f", "{{.State.Pid}}", id)
	if err == nil && pid == "0" {
		err = errNothingThere // it is off, and its rules are gone with its namespace
	}
	if err != nil {
		return "", err
	}
	return h.command(ctx, "nsenter", append([]string{"-t", pid, "-n"}, args...)...)
}

// iptables adds (-A) or deletes (-D) rules of a host's filter table, all at once. Docker's name server uses another table.
func (h *hosts) iptables(ctx context.Context, host, verb string, rules [][]string) error {
	var text strings.Builder
	text.WriteString("*filter\n")
	for _, rule := range rules {
		fmt.Fprintln(&text, verb, strings.Join(rule, " "))
	}
	text.WriteString("COMMIT\n")
	_, err := h.inside(ctx, host, "sh", "-c", `printf %s "$1" | iptables-restore -w -n`, "sh", text.String())
	return err
}

// direction is which packets a cut drops.
type direction int

const (
	both     direction = iota
	incoming           // a host's requests arrive, and no answer returns
)

// cutRules are the rules that cut a host off from others.
func (h *hosts) cutRules(others []string, dir direction) (rules [][]string) {
	for _, other := range others {
		rules = append(rules, []string{"INPUT", "-s", h.addr(other), "-j", "DROP"})
		if dir == both {
			rules = append(rules, []string{"OUTPUT", "-d", h.addr(other), "-j", "DROP"})
		}
	}
	return rules
}

// lossRules lose a share of a host's packets at random, in both directions.
func lossRules(share float64) [][]string {
	text := strconv.FormatFloat(share, 'f', 3, 64)
	return [][]string{
		{"INPUT", "!", "-i", "lo", "-m", "statistic", "--mode", "random", "--probability", text, "-j", "DROP"},
		{"OUTPUT", "!", "-o", "lo", "-m", "statistic", "--mode", "random", "--probability", text, "-j", "DROP"},
	}
}

// drop adds rules to a host, also for its next start.
func (h *hosts) drop(ctx context.Context, host string, rules [][]string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down[host] {
		return errNothingThere
	}
	if err := h.iptables(ctx, host, "-A", rules); err != nil {
		return err
	}
	h.cuts[host] = append(h.cuts[host], rules...)
	return nil
}

// mend removes rules, and returns how many packets the rules of the host have dropped so far.
func (h *hosts) mend(ctx context.Context, host string, rules [][]string) (dropped int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	dropped, err = h.dropped(ctx, host)
	if errors.Is(err, errNothingThere) {
		err = nil
	}
	var here [][]string // not those that a heal of everything has removed
	for _, rule := range rules {
		if i := slices.IndexFunc(h.cuts[host], func(r []string) bool { return slices.Equal(r, rule) }); i >= 0 {
			h.cuts[host] = slices.Delete(h.cuts[host], i, i+1)
			here = append(here, rule)
		}
	}
	if e := h.iptables(ctx, host, "-D", here); !errors.Is(e, errNothingThere) {
		err = errors.Join(err, e)
	}
	return dropped, err
}

// dropped counts the packets that a host's rules have dropped.
func (h *hosts) dropped(ctx context.Context, host string) (n int, err error) {
	out, err := h.inside(ctx, host, "iptables", "-w", "-nvxL")
	for line := range strings.Lines(out) {
		if field := strings.Fields(line); len(field) > 2 && field[2] == "DROP" {
			packets, _ := strconv.Atoi(field[0]) // a number, by the format of the list
			n += packets
		}
	}
	return n, err
}

// mendAll removes all rules and delays of a host.
func (h *hosts) mendAll(ctx context.Context, host string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.cuts, host)
	_, err := h.inside(ctx, host, "iptables", "-w", "-F")
	_, _ = h.inside(ctx, host, "tc", "qdisc", "del", "dev", "eth0", "root") // fails if there is no delay
	if errors.Is(err, errNothingThere) {
		return nil
	}
	return err
}

// slow delays what a host sends: with netem, or, on a kernel without it, by a narrow link whose queue delays bursts. It returns
// which.
func (h *hosts) slow(ctx context.Context, host string, delay time.Duration) (how string, err error) {
	ms := fmt.Sprintf("%dms", delay.Milliseconds())
	how = "netem delay " + ms + " " + fmt.Sprintf("%dms", delay.Milliseconds()/2) + " loss 1%"
	if _, err = h.inside(ctx, host, append(strings.Fields("tc qdisc replace dev eth0 root"), strings.Fields(how)...)...); err != nil {
		how = "tbf rate 400kbit burst 4kb latency " + ms
		_, err = h.inside(ctx, host, append(strings.Fields("tc qdisc replace dev eth0 root"), strings.Fields(how)...)...)
	}
	return how, err
}

func (h *hosts) fast(ctx context.Context, host string) (seen string, err error) {
	seen, err = h.inside(ctx, host, "tc", "-s", "qdisc", "show", "dev", "eth0")
	if err == nil {
		_, err = h.inside(ctx, host, "tc", "qdisc", "del", "dev", "eth0", "root")
	}
	if errors.Is(err, errNothingThere) {
		err = nil
	}
	return seen, err
}
