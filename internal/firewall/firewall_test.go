package firewall

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidegate/tidegate/bans"
)

// A network is two machines: one with clients' addresses, one with a server behind a firewall. Each is a network namespace.
type network struct {
	t              *testing.T
	server, client string
}

// clients are the addresses of one machine; each reaches the server of its family.
var clients = []string{"203.0.113.2/24", "203.0.113.3/24", "198.51.100.2/24", "2001:db8:2::2/64", "2001:db8:3::2/64"}

const (
	server4, server6 = "203.0.113.1", "2001:db8:1::1"
	port             = "8080"
)

func newNetwork(t *testing.T) *network {
	t.Helper()
	name := fmt.Sprintf("tidegate-%d-%x", os.Getpid(), time.Now().UnixNano()&0xffffff)
	n := &network{t, name + "-s", name + "-c"}
	if out, err := exec.CommandContext(t.Context(), "ip", "netns", "add", n.server).CombinedOutput(); err != nil {
		if os.Getenv("CI") == "" {
			t.Skipf("this needs to make network namespaces, as root: %v: %s", err, out)
		}
		t.Fatalf("ip netns add: %v: %s", err, out)
	}
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	remove := func(name string) {
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	}
	remove(n.server)
	ip("netns", "add", n.client)
	remove(n.client)
	ip("link", "add", "wire", "netns", n.server, "type", "veth", "peer", "name", "wire", "netns", n.client)
	for _, addr := range clients {
		ip("-n", n.client, "addr", "add", addr, "dev", "wire", "nodad")
	}
	ip("-n", n.server, "addr", "add", server4+"/24", "dev", "wire")
	ip("-n", n.server, "addr", "add", server6+"/64", "dev", "wire", "nodad")
	for _, ns := range []string{n.server, n.client} {
		ip("-n", ns, "link", "set", "wire", "up")
		ip("-n", ns, "link", "set", "lo", "up")
	}
	for _, subnet := range []string{"198.51.100.0/24", "2001:db8:2::/64", "2001:db8:3::/64"} {
		ip("-n", n.server, "route", "add", subnet, "dev", "wire")
	}
	ip("-n", n.client, "route", "add", "2001:db8:1::/64", "dev", "wire")
	n.serve()
	return n
}

// within calls do in a namespace: a socket stays where it was made.
func (n *network) within(name string, do func()) {
	n.t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and not unlocked: the thread ends with its goroutine, and does not get lost elsewhere
		f, err := os.Open("/run/netns/" + name)
		if err == nil {
			err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
			f.Close()
		}
		if err == nil {
			do()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		n.t.Fatal(err)
	}
}

func (n *network) serve() {
	n.t.Helper()
	n.within(n.server, func() {
		l, err := net.Listen("tcp", ":"+port)
		if err != nil {
			n.t.Error(err)
			return
		}
		n.t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write([]byte("welcome"))
				c.Close()
			}
		}()
	})
}

// reaches reports whether the server welcomes a client from that address.
func (n *network) reaches(from string) (welcome bool) {
	n.t.Helper()
	n.within(n.client, func() {
		ip := netip.MustParseAddr(from)
		to := server4
		if ip.Is6() {
			to = server6
		}
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: ip.AsSlice()}, Timeout: 500 * time.Millisecond}
		c, err := d.DialContext(n.t.Context(), "tcp", net.JoinHostPort(to, port))
		if err != nil {
			return
		}
		defer c.Close()
		_ = c.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		word := make([]byte, 7)
		_, err = c.Read(word)
		welcome = err == nil && string(word) == "welcome"
	})
	return welcome
}

// The scripts of the documentation, each as the program of a worker.
func TestFirewalls(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"nftables.sh", "ipset.sh"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t)
			path, err := filepath.Abs("../../docs/bans/" + script)
			if err != nil {
				t.Fatal(err)
			}
			s := newSite(t, recorder)
			s.obey(fmt.Sprintf("bans: {run: [%q, netns, exec, %q, %q]}", ipProgram(t), n.server, path))
			w := s.worker()
			in := func(when string, addrs ...string) {
				t.Helper()
				for _, a := range addrs {
					s.await(a+" reaches the server "+when, func() bool { return n.reaches(a) })
				}
			}
			out := func(when string, addrs ...string) {
				t.Helper()
				for _, a := range addrs {
					if n.reaches(a) {
						t.Errorf("%s reaches the server %s", a, when)
					}
				}
			}
			target := func(kind, value string) bans.Target {
				target, err := bans.ParseTarget(kind, value)
				if err != nil {
					t.Fatal(err)
				}
				return target
			}
			four, six, net4, net6 := target("ip", "203.0.113.2"), target("ip", "2001:db8:2::77"), target("network", "198.51.100.0/24"), target("network", "2001:db8:2::/48")
			in("at first", "203.0.113.2", "203.0.113.3", "198.51.100.2", "2001:db8:2::2", "2001:db8:3::2")

			for range 2 { // the second time nothing is new
				for _, target := range []bans.Target{four, six, net4} {
					s.ban(target, time.Hour)
					s.handle(w, target)
				}
				out("banned", "203.0.113.2", "2001:db8:2::2", "198.51.100.2")
				in("while others are banned", "203.0.113.3", "2001:db8:3::2")
			}

			s.ban(net6, time.Hour) // around one that is banned
			s.handle(w, net6)
			s.lift(six)
			s.handle(w, six)
			out("in a network that is banned", "2001:db8:2::2")
			for range 2 {
				for _, target := range []bans.Target{four, net4, net6} {
					s.lift(target)
					s.handle(w, target)
				}
				in("lifted", "203.0.113.2", "198.51.100.2", "2001:db8:2::2")
			}

			// A ban is as long as its last order, and the kernel ends it.
			s.ban(four, time.Hour)
			s.ban(six, time.Hour)
			s.handle(w, four)
			s.handle(w, six)
			out("banned again", "203.0.113.2", "2001:db8:2::2")
			s.ban(four, 2*time.Second)
			s.ban(six, 2*time.Second)
			s.handle(w, four)
			s.handle(w, six)
			in("when its ban is over", "203.0.113.2", "2001:db8:2::2")
			s.ban(four, 2*time.Second)
			s.handle(w, four)
			s.ban(four, time.Hour)
			s.handle(w, four)
			list := exec.CommandContext(t.Context(), ipProgram(t), "netns", "exec", n.server, "sh", "-c", "nft list ruleset; ipset list")
			if text, err := list.Output(); err != nil || !regexp.MustCompile(`203\.0\.113\.2 timeout (1h|59m|3[56]\d\d)`).Match(text) {
				t.Errorf("%v: no hour in\n%s", err, text)
			}
		})
	}
}

func ipProgram(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("ip")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Scripts refuse what Tidegate never passes, and do nothing.
func TestScriptsCheckTheirArguments(t *testing.T) {
	dir := t.TempDir()
	for _, tool := range []string{"nft", "ipset", "iptables", "ip6tables"} {
		if err := os.WriteFile(filepath.Join(dir, tool), []byte("#!/bin/sh\necho "+tool+" >>"+dir+"/called\n"), 0o755); err != nil { //nolint:gosec // it is to be run
			t.Fatal(err)
		}
	}
	for _, script := range []string{"nftables.sh", "ipset.sh"} {
		run := func(args ...string) error {
			cmd := exec.CommandContext(t.Context(), "../../docs/bans/"+script, args...)
			cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
			return cmd.Run()
		}
		for _, args := range [][]string{
			{},
			{"ban"},
			{"unban"},
			{"banish", "203.0.113.7"},
			{"ban", "203.0.113.7"},
			{"ban", "203.0.113.7", "60"},
			{"ban", "203.0.113.7", "60", "reboot"},
			{"ban", "203.0.113.7", "60", "rule", "more"},
			{"ban", "203.0.113.7", "0", "rule"},
			{"ban", "203.0.113.7", "-1", "rule"},
			{"ban", "203.0.113.7", "1e3", "rule"},
			{"ban", "203.0.113.7", "99999999999", "rule"},
			{"ban", "", "60", "rule"},
			{"ban", "7", "60", "rule"},
			{"ban", "example.com", "60", "rule"},
			{"ban", "-h", "60", "rule"},
			{"ban", "203.0.113.7 }; flush ruleset; #", "60", "rule"},
			{"ban", "203.0.113.7\n", "60", "rule"},
			{"unban", "203.0.113.7", "60"},
			{"unban", "$(reboot)"},
		} {
			if err := run(args...); err == nil {
				t.Errorf("%s %q went well", script, args)
			}
		}
		if called, err := os.ReadFile(filepath.Join(dir, "called")); err == nil {
			t.Errorf("%s called %q", script, called)
		}
		if err := run("ban", "203.0.113.7", "60", "rule"); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "called")); err != nil {
			t.Error(err)
		}
		_ = os.Remove(filepath.Join(dir, "called"))
	}
}
