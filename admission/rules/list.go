package rules

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxList  = 1 << 20 // values, repeated ones included
	maxValue = 255     // bytes in one value
)

// A valueList holds the values of one list, for conditions. It is immutable after parsing.
type valueList struct {
	name      string
	line      int    // of the rules file
	blankFile string // its file, if that has no bytes
	used      bool   // by a condition, or by bans.allow
	other     bool   // used for more than ip, so its values may be other than addresses
	words     map[string]struct{}
	nets      map[netip.Prefix]struct{}
	bits      []int // prefix lengths of nets, each once; IPv6 lengths plus 64

	strays int    // values that are no addresses
	stray  string // the first of them, with its file and line
}

func newList(name string) *valueList {
	return &valueList{name: name, words: map[string]struct{}{}, nets: map[netip.Prefix]struct{}{}}
}

// maxListFile is the maximum size of a list's file, in bytes.
const maxListFile = 64 << 20

// parseList reads one value, address or network per line. A "#" starts a comment, at the start of a line or after a space.
func parseList(file, name string, src []byte) (*valueList, error) {
	l := newList(name)
	lines := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(src, []byte("\ufeff"))))
	values, over, at := 0, 0, 1 // over: the line with the first value too many
	for ; lines.Scan(); at++ {
		line := lines.Text()
		if i := strings.Index(" "+line, " #"); i >= 0 {
			line = line[:max(0, i)]
		}
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if values++; values > maxList {
			over = cmp.Or(over, at)
			continue
		}
		if err := l.add(line, file, at); err != "" {
			return nil, &Error{File: file, Line: at, Column: 1, Problem: err}
		}
	}
	switch {
	case lines.Err() != nil:
		return nil, &Error{
			File: file, Line: at, Column: 1,
			Problem: fmt.Sprintf("the line is too long, a value should have at most %d bytes", maxValue),
		}
	case values > maxList:
		return nil, &Error{
			File: file, Line: over, Column: 1,
			Problem: fmt.Sprintf("list %s has %d values, it should have at most %d", name, values, maxList),
		}
	}
	return l, nil
}

// add adds one value, which is at a line of file; err describes what is wrong with it, "" if nothing.
func (l *valueList) add(value, file string, line int) (err string) {
	if len(value) > maxValue || !utf8.ValidString(value) {
		return fmt.Sprintf("%.40q is no value, it should be at most %d bytes of UTF-8", value, maxValue)
	}
	if p, ok := parseNetwork(value); ok {
		l.addNetwork(p)
	} else if looksLikeNetwork(value) {
		return fmt.Sprintf("%q is no network, it should be such as 10.0.0.0/8 or fd00::/8", value)
	} else if l.strays++; l.strays == 1 {
		l.stray = fmt.Sprintf("%.60q (%s:%d)", value, file, line)
	}
	l.words[value] = struct{}{} // a user's name may look like an address
	return ""
}

func (l *valueList) addNetwork(p netip.Prefix) {
	l.nets[p] = struct{}{}
	if key := lengthKey(p.Addr(), p.Bits()); !slices.Contains(l.bits, key) {
		l.bits = append(l.bits, key)
	}
}

// looksLikeNetwork reports whether value is an address followed by a slash and more text.
func looksLikeNetwork(value string) bool {
	addr, _, slash := strings.Cut(value, "/")
	_, err := netip.ParseAddr(addr)
	return slash && err == nil
}

// parseNetwork parses an address or a network, and masks it.
func parseNetwork(text string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(text); err == nil {
		return unmapped(p).Masked(), true
	}
	if a, err := netip.ParseAddr(text); err == nil {
		a = a.Unmap().WithZone("")
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	return netip.Prefix{}, false
}

// unmapped converts a network of IPv4-mapped IPv6 addresses to an IPv4 network.
func unmapped(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

func lengthKey(a netip.Addr, bits int) int {
	if a.Is4() {
		return bits
	}
	return 64 + bits
}

// holds implements test. It does one lookup per prefix length, however many networks there are.
func (l *valueList) holds(v value) bool {
	return l.has(v.text) || len(l.bits) > 0 && l.hasIP(v.address())
}

func (l *valueList) none() bool { return len(l.words)+len(l.nets) == 0 }

func (l *valueList) has(word string) bool {
	_, ok := l.words[word]
	return ok // the list contains no empty word
}

// names reports whether the list contains word as the name of a user or a device; addresses and networks do not count.
func (l *valueList) names(word string) bool {
	_, address := parseNetwork(word)
	return !address && l.has(word)
}

func (l *valueList) hasIP(ip netip.Addr) bool {
	for _, key := range l.bits {
		if ip.Is4() != (key < 64) {
			continue
		}
		if !ip.Is4() {
			key -= 64
		}
		if p, err := ip.Prefix(key); err == nil {
			if _, ok := l.nets[p]; ok {
				return true
			}
		}
	}
	return false
}

// overlaps reports whether the list contains an address of p.
func (l *valueList) overlaps(p netip.Prefix) bool {
	if l.hasIP(p.Addr()) { // finds prefixes that contain p
		return true
	}
	for n := range l.nets {
		if p.Overlaps(n) {
			return true
		}
	}
	return false
}
