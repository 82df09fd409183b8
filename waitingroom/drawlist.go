package waitingroom

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/export"
	"github.com/tidegate/tidegate/internal/failure"
)

// The columns of a list: an entry, and its position.
const (
	columnsOfDraw  = "index,subject,joined_ms,position"
	columnsOfLanes = "index,subject,joined_ms,lane,position"
)

// WriteDraw writes the list of a draw that has taken place: what VerifyDraw reads. It contains no user. The names of lanes are as they are, because
// they are a part of what is hashed.
func (s *Service) WriteDraw(ctx context.Context, name string, w io.Writer) error {
	return s.writeDraw(ctx, name, w, false)
}

// WriteDrawJSON writes the list as NDJSON: an object with the fields before the columns, and one per place.
func (s *Service) WriteDrawJSON(ctx context.Context, name string, w io.Writer) error {
	return s.writeDraw(ctx, name, w, true)
}

func (s *Service) writeDraw(ctx context.Context, name string, w io.Writer, asJSON bool) error {
	v, err := s.view(ctx, name)
	if err != nil {
		return err
	}
	if !v.drawn() {
		return failure.New(ErrConflict, "room %s has not drawn", name)
	}
	d, err := v.result()
	if err != nil {
		return err
	}
	fields, values := []string{"room", "commitment", "secret"}, []any{name, v.commit, v.secret}
	if v.Beacon != "" {
		fields = append(fields, "beacon", "starts_ms", "listed_ms", "round", "signature")
		values = append(values, v.Beacon, v.StartsAt.UnixMilli(), v.beacon.listedAt, v.beacon.round, v.beacon.signature)
	}
	fields, values = append(fields, "root", "seed", "n"), append(values, v.root, hex.EncodeToString(d.seed[:]), d.n)
	columns := columnsOfDraw
	if len(v.Lanes) > 0 {
		columns = columnsOfLanes
	}
	var out bytes.Buffer // written between queries: whoever reads slowly holds no connection of the database
	if asJSON {
		if err := export.Object(&out, fields, values); err != nil {
			return err
		}
	} else {
		for i := range fields {
			fmt.Fprintf(&out, "%s,%v\n", fields[i], values[i])
		}
		out.WriteString(columns + "\n")
	}
	names := strings.Split(columns, ",")
	const page = 10_000
	for after := int64(0); after < d.n; after += page {
		if err := s.store.listed(ctx, s.store.db, name, after, min(after+page, d.n), func(p *place) error {
			position := v.position(v.laneOf(p), p.laneNumber) + 1
			if !asJSON {
				_, err := fmt.Fprintf(&out, "%s,%d\n", p.entry(), position)
				return err
			}
			entry := []any{p.number - 1, p.subject, p.joinedAt}
			if len(v.Lanes) > 0 {
				entry = append(entry, p.lane)
			}
			return export.Object(&out, names, append(entry, position))
		}); err != nil {
			return err
		}
		if _, err := out.WriteTo(w); err != nil {
			return err
		}
	}
	_, err = out.WriteTo(w)
	return err
}

// VerifiedDraw is what VerifyDraw found in a list.
type VerifiedDraw struct {
	Room, Commitment, Root, Seed string
	N                            int64 // places
	Round                        int64 // of drand's network quicknet; 0: the draw has no beacon
}

// VerifyDraw checks a list that WriteDraw wrote: the secret against the commitment, the signature of the beacon, the places against the
// root, the seed, and every position. It needs nothing but the list. Compare its commitment with what was published before the start, and its root and
// round with what the room showed between the end of the list and the draw.
func VerifyDraw(r io.Reader) (VerifiedDraw, error) {
	in := bufio.NewScanner(r)
	d, result, err := verifyHeader(in)
	if err != nil {
		return d, err
	}
	tree, lanes, err := readEntries(in, d.Room)
	if err != nil {
		return d, err
	}
	if tree.size() != d.N {
		return d, failure.New(ErrInvalid, "the list has %d places, and n is %d", tree.size(), d.N)
	}
	for _, lane := range slices.Sorted(maps.Keys(lanes)) {
		perm := newPermutation(result.laneSeed(lane), int64(len(lanes[lane])))
		for i, e := range lanes[lane] {
			if got := perm.position(int64(i)) + 1; got != e.position {
				return d, failure.New(ErrInvalid, "the seed puts index %d at position %d, and the list says %d", e.index, got, e.position)
			}
		}
	}
	root, err := tree.root()
	if err != nil {
		return d, err
	}
	if hex.EncodeToString(root) != d.Root {
		return d, failure.New(ErrInvalid, "the places give the root %x, and the list says %s", root, d.Root)
	}
	return d, nil
}

// verifyHeader reads the lines before the columns, and checks the commitment, the beacon and the seed.
func verifyHeader(in *bufio.Scanner) (d VerifiedDraw, result *draw, err error) {
	var secretText, beaconName, starts, listed, round, n string
	var b beacon
	type field struct {
		name string
		into *string
	}
	fields := []field{{"room", &d.Room}, {"commitment", &d.Commitment}, {"secret", &secretText}, {"root", &d.Root}, {"seed", &d.Seed}, {"n", &n}}
	withBeacon := []field{{"beacon", &beaconName}, {"starts_ms", &starts}, {"listed_ms", &listed}, {"round", &round}, {"signature", &b.signature}}
	for i := 0; i < len(fields); i++ {
		if !in.Scan() && in.Err() != nil {
			return d, nil, in.Err()
		}
		name, value, _ := strings.Cut(in.Text(), ",")
		if name == "beacon" && i == 3 {
			fields = slices.Insert(fields, i, withBeacon...)
		}
		if name != fields[i].name {
			return d, nil, failure.New(ErrInvalid, "line must begin with %q, got %.40q", fields[i].name+",", in.Text())
		}
		*fields[i].into = value
	}
	secret, err := hex.DecodeString(secretText)
	if err != nil {
		return d, nil, failure.New(ErrInvalid, "secret must be hexadecimal, got %.80q", secretText)
	}
	root, err := hex.DecodeString(d.Root)
	if err != nil || len(root) != sha256.Size {
		return d, nil, failure.New(ErrInvalid, "root must be %d bytes in hexadecimal, got %.80q", sha256.Size, d.Root)
	}
	if d.N, err = strconv.ParseInt(n, 10, 64); err != nil || d.N < 0 {
		return d, nil, failure.New(ErrInvalid, "n must be a number, got %.40q", n)
	}
	if got := commitment(secret); got != d.Commitment {
		return d, nil, failure.New(ErrInvalid, "the secret has the SHA-256 %s, and the commitment is %s", got, d.Commitment)
	}
	var signature []byte
	if beaconName != "" {
		if signature, err = b.read(beaconName, starts, listed, round); err != nil {
			return d, nil, err
		}
		d.Round = b.round
	}
	result = newDraw(secret, root, signature, d.N)
	if got := hex.EncodeToString(result.seed[:]); got != d.Seed {
		return d, nil, failure.New(ErrInvalid, "the seed must be %s, and the list says %s", got, d.Seed)
	}
	return d, result, nil
}

// read reads the beacon of a list, verifies it, and returns the bytes of its signature.
func (b *beacon) read(name, starts, listed, round string) (signature []byte, err error) {
	if name != BeaconDrand {
		return nil, failure.New(ErrInvalid, "beacon must be %s, got %.40q", BeaconDrand, name)
	}
	var startsAt int64
	for _, number := range []struct {
		name, text string
		into       *int64
	}{{"starts_ms", starts, &startsAt}, {"listed_ms", listed, &b.listedAt}, {"round", round, &b.round}} {
		if *number.into, err = strconv.ParseInt(number.text, 10, 64); err != nil {
			return nil, failure.New(ErrInvalid, "%s must be a number, got %.40q", number.name, number.text)
		}
	}
	if err := b.verify(time.UnixMilli(startsAt).UTC()); err != nil {
		return nil, err
	}
	return hex.DecodeString(b.signature)
}

// listEntry is an entry of a lane: its index in the whole list, and its position in the lane.
type listEntry struct{ index, position int64 }

// readEntries reads the columns and the entries, and returns the tree of all and the entries by lane.
func readEntries(in *bufio.Scanner, room string) (*tree, map[string][]listEntry, error) {
	in.Scan()
	columns := in.Text()
	if columns != columnsOfDraw && columns != columnsOfLanes {
		return nil, nil, failure.New(ErrInvalid, "the columns must be %s or %s, got %.100q", columnsOfDraw, columnsOfLanes, columns)
	}
	t, lanes := newTree(), make(map[string][]listEntry)
	for in.Scan() {
		fields := strings.Split(in.Text(), ",")
		last := len(fields) - 1
		if last != strings.Count(columns, ",") {
			return nil, nil, failure.New(ErrInvalid, "line must be %s, got %.100q", columns, in.Text())
		}
		if index := strconv.FormatInt(t.size(), 10); fields[0] != index {
			return nil, nil, failure.New(ErrInvalid, "index must be %s, got %.40q", index, fields[0])
		}
		position, err := strconv.ParseInt(fields[last], 10, 64)
		if err != nil {
			return nil, nil, failure.New(ErrInvalid, "position must be a number, got %.40q", fields[last])
		}
		lane := strings.Join(fields[3:last], "")
		lanes[lane] = append(lanes[lane], listEntry{t.size(), position})
		if err := t.add(leaf(room, strings.Join(fields[:last], ","))); err != nil {
			return nil, nil, err
		}
	}
	return t, lanes, in.Err()
}
