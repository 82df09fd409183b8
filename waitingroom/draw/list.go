package draw

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/failure"
)

// The columns of a list: an entry, and its position.
const (
	columnsOfDraw  = "index,subject,joined_ms,position"
	columnsOfLanes = "index,subject,joined_ms,lane,position"
)

// List is the header of a draw's list. Texts are hexadecimal, except Room.
type List struct {
	Room, Commitment, Secret string
	StartsMS                 int64 // Unix ms; 0 without a beacon
	Beacon                   Beacon
	Root, Seed               string
	N                        int64 // places
}

// Fields returns the names and values before the columns.
func (l *List) Fields() (names []string, values []any) {
	names, values = []string{"room", "commitment", "secret"}, []any{l.Room, l.Commitment, l.Secret}
	if l.Beacon.Round > 0 {
		names = append(names, "beacon", "starts_ms", "listed_ms", "round", "signature")
		values = append(values, Drand, l.StartsMS, l.Beacon.ListedMS, l.Beacon.Round, l.Beacon.Signature)
	}
	return append(names, "root", "seed", "n"), append(values, l.Root, l.Seed, l.N)
}

// Columns returns the line of the columns.
func Columns(lanes bool) string {
	if lanes {
		return columnsOfLanes
	}
	return columnsOfDraw
}

// Verify checks a list as a room writes it, in CSV: the secret against the commitment, the signature of the beacon, the places against the
// root, the seed, and every position. It needs nothing but the list. Compare its commitment with what was published before the
// start, and its root and round with what the room showed between the end of the list and the draw.
func Verify(r io.Reader) (List, error) {
	in := bufio.NewScanner(r)
	d, seed, err := verifyHeader(in)
	if err != nil {
		return d, err
	}
	tree, lanes, err := readEntries(in, d.Room)
	if err != nil {
		return d, err
	}
	if tree.Size() != d.N {
		return d, failure.New(ErrInvalid, "the list has %d places, and n is %d", tree.Size(), d.N)
	}
	for _, lane := range slices.Sorted(maps.Keys(lanes)) {
		order := seed.Order(lane, int64(len(lanes[lane])))
		for i, e := range lanes[lane] {
			if got := order.Position(int64(i)+1) + 1; got != e.position {
				return d, failure.New(ErrInvalid, "the seed puts index %d at position %d, but the list has %d", e.index, got, e.position)
			}
		}
	}
	root, err := tree.Root()
	if err != nil {
		return d, err
	}
	if hex.EncodeToString(root) != d.Root {
		return d, failure.New(ErrInvalid, "the places give the root %x, but the list has %s", root, d.Root)
	}
	return d, nil
}

// verifyHeader reads the lines before the columns, and checks the commitment, the beacon and the seed.
func verifyHeader(in *bufio.Scanner) (d List, seed Seed, err error) {
	var beaconName, starts, listed, round, n string
	type field struct {
		name string
		into *string
	}
	fields := []field{{"room", &d.Room}, {"commitment", &d.Commitment}, {"secret", &d.Secret}, {"root", &d.Root}, {"seed", &d.Seed}, {"n", &n}}
	withBeacon := []field{
		{"beacon", &beaconName},
		{"starts_ms", &starts},
		{"listed_ms", &listed},
		{"round", &round},
		{"signature", &d.Beacon.Signature},
	}
	for i := 0; i < len(fields); i++ {
		if !in.Scan() && in.Err() != nil {
			return d, seed, in.Err()
		}
		name, value, _ := strings.Cut(in.Text(), ",")
		if name == "beacon" && i == 3 {
			fields = slices.Insert(fields, i, withBeacon...)
		}
		if name != fields[i].name {
			return d, seed, failure.New(ErrInvalid, "line must begin with %q, got %.40q", fields[i].name+",", in.Text())
		}
		*fields[i].into = value
	}
	secret, err := hex.DecodeString(d.Secret)
	if err != nil {
		return d, seed, failure.New(ErrInvalid, "secret must be hexadecimal, got %.80q", d.Secret)
	}
	root, err := hex.DecodeString(d.Root)
	if err != nil || len(root) != sha256.Size {
		return d, seed, failure.New(ErrInvalid, "root must be %d bytes in hexadecimal, got %.80q", sha256.Size, d.Root)
	}
	if d.N, err = strconv.ParseInt(n, 10, 64); err != nil || d.N < 0 {
		return d, seed, failure.New(ErrInvalid, "n must be a number, got %.40q", n)
	}
	if got := Commitment(secret); got != d.Commitment {
		return d, seed, failure.New(ErrInvalid, "the secret has the SHA-256 %s, and the commitment is %s", got, d.Commitment)
	}
	var signature []byte
	if beaconName != "" {
		if signature, err = d.readBeacon(beaconName, starts, listed, round); err != nil {
			return d, seed, err
		}
	}
	seed = NewSeed(secret, root, signature)
	if got := seed.String(); got != d.Seed {
		return d, seed, failure.New(ErrInvalid, "the seed must be %s, but the list has %s", got, d.Seed)
	}
	return d, seed, nil
}

// readBeacon reads the beacon of a list, verifies it, and returns the bytes of its signature.
func (l *List) readBeacon(name, starts, listed, round string) (signature []byte, err error) {
	if name != Drand {
		return nil, failure.New(ErrInvalid, "beacon must be %s, got %.40q", Drand, name)
	}
	for _, number := range []struct {
		name, text string
		into       *int64
	}{{"starts_ms", starts, &l.StartsMS}, {"listed_ms", listed, &l.Beacon.ListedMS}, {"round", round, &l.Beacon.Round}} {
		if *number.into, err = strconv.ParseInt(number.text, 10, 64); err != nil {
			return nil, failure.New(ErrInvalid, "%s must be a number, got %.40q", number.name, number.text)
		}
	}
	if err := l.Beacon.Verify(time.UnixMilli(l.StartsMS).UTC()); err != nil {
		return nil, err
	}
	return hex.DecodeString(l.Beacon.Signature)
}

// listEntry is an entry of a lane: its index in the whole list, and its position in the lane.
type listEntry struct{ index, position int64 }

// readEntries reads the columns and the entries, and returns the tree of all and the entries by lane.
func readEntries(in *bufio.Scanner, room string) (*Tree, map[string][]listEntry, error) {
	in.Scan()
	columns := in.Text()
	if columns != columnsOfDraw && columns != columnsOfLanes {
		return nil, nil, failure.New(ErrInvalid, "the columns must be %s or %s, got %.100q", columnsOfDraw, columnsOfLanes, columns)
	}
	t, lanes := NewTree(), make(map[string][]listEntry)
	for in.Scan() {
		fields := strings.Split(in.Text(), ",")
		last := len(fields) - 1
		if last != strings.Count(columns, ",") {
			return nil, nil, failure.New(ErrInvalid, "line must be %s, got %.100q", columns, in.Text())
		}
		if index := strconv.FormatInt(t.Size(), 10); fields[0] != index {
			return nil, nil, failure.New(ErrInvalid, "index must be %s, got %.40q", index, fields[0])
		}
		position, err := strconv.ParseInt(fields[last], 10, 64)
		if err != nil {
			return nil, nil, failure.New(ErrInvalid, "position must be a number, got %.40q", fields[last])
		}
		lane := strings.Join(fields[3:last], "")
		lanes[lane] = append(lanes[lane], listEntry{t.Size(), position})
		if err := t.Add(leaf(room, strings.Join(fields[:last], ","))); err != nil {
			return nil, nil, err
		}
	}
	return t, lanes, in.Err()
}
