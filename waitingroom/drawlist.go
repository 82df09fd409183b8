package waitingroom

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/tidegate/tidegate/internal/export"
	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/waitingroom/draw"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// entryOf returns a place in the list.
func entryOf(p *store.Place) draw.Entry {
	return draw.Entry{Index: p.Number - 1, Subject: p.Subject, JoinedMS: p.JoinedAt, Lane: p.Lane}
}

// orders returns the orders of the lanes.
func (r *room) orders() ([]draw.Order, error) {
	all := make([]draw.Order, len(r.saved.Lanes))
	if !r.drawn() {
		return all, nil
	}
	seed, err := r.drawSeed()
	if err != nil {
		return nil, err
	}
	for i, l := range r.saved.Lanes {
		all[i] = seed.Order(l.Name, l.Drawn)
	}
	return all, nil
}

// drawSeed returns the seed of a room that has been drawn.
func (r *room) drawSeed() (seed draw.Seed, err error) {
	secret, err := hex.DecodeString(r.saved.Secret)
	if err != nil {
		return seed, fmt.Errorf("waitingroom: secret of room %s: %w", r.def.Room, err)
	}
	root, err := hex.DecodeString(r.saved.Root)
	if err != nil || len(root) != sha256.Size {
		return seed, fmt.Errorf("waitingroom: root of room %s must be %d bytes in hexadecimal, got %q", r.def.Room, sha256.Size, r.saved.Root)
	}
	signature, err := hex.DecodeString(r.saved.Beacon.Signature)
	if err != nil || (r.def.Beacon != "") != (len(signature) > 0) {
		return seed, fmt.Errorf("waitingroom: beacon of room %s is %q, and its signature %q", r.def.Room, r.def.Beacon, r.saved.Beacon.Signature)
	}
	return draw.NewSeed(secret, root, signature), nil
}

// WriteDraw writes the list of a draw that has taken place: what draw.Verify reads. It contains no user. The names of lanes are
// as they are, because they are a part of what is hashed.
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
	if !v.room.drawn() {
		return failure.New(ErrConflict, "room %s has not drawn", name)
	}
	saved := &v.room.saved
	list := draw.List{
		Room: name, Commitment: saved.Commit, Secret: saved.Secret, StartsMS: v.room.def.StartsAt.UnixMilli(), Beacon: saved.Beacon,
		Root: saved.Root, Seed: v.seed, N: saved.NDrawn,
	}
	fields, values := list.Fields()
	columns := draw.Columns(len(v.room.def.Lanes) > 0)
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
	for after := int64(0); after < list.N; after += page {
		if err := s.store.Listed(ctx, name, after, min(after+page, list.N), func(p *store.Place) error {
			position := v.position(v.laneOf(p), p.LaneNumber) + 1
			if !asJSON {
				_, err := fmt.Fprintf(&out, "%s,%d\n", entryOf(p), position)
				return err
			}
			entry := []any{p.Number - 1, p.Subject, p.JoinedAt}
			if len(v.room.def.Lanes) > 0 {
				entry = append(entry, p.Lane)
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
