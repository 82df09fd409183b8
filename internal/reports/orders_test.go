package reports

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/export"
	"github.com/tidegate/tidegate/orders"
)

// sold is a sale with so many orders.
type sold struct {
	n     int
	asked int
	err   error // for the page after the first
	block chan struct{}
}

func id(n int) (id orders.ID) {
	binary.BigEndian.PutUint64(id[8:], uint64(n)) //nolint:gosec // it is small
	return id
}

func (s *sold) Orders(ctx context.Context, q orders.Query) ([]orders.Order, error) {
	if s.block != nil {
		select {
		case <-s.block:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if q.Sale != "concert" {
		return nil, orders.ErrUnknownSale
	}
	if s.asked++; s.asked > 1 && s.err != nil {
		return nil, s.err
	}
	var page []orders.Order
	for n := int(binary.BigEndian.Uint64(q.After[8:])) + 1; n <= s.n && len(page) < q.Limit; n++ { //nolint:gosec // it is small
		page = append(page, orders.Order{
			ID: id(n), Status: orders.StatusConfirmed, Item: "ticket", Buyer: "ann", Quantity: 2, Units: []int{2 * n, 2*n + 1},
			AcceptedAt: time.Date(2030, 1, 1, 12, 0, 0, 5e6, time.FixedZone("", 3600)),
		})
	}
	return page, nil
}

func TestRows(t *testing.T) {
	var out bytes.Buffer
	if err := WriteOrders(t.Context(), &out, export.CSV, &sold{n: 1}, "concert"); err != nil {
		t.Fatal(err)
	}
	want := "order_id,status,item,user,quantity,units,accepted_at,confirmed_at,reason\n" +
		id(1).String() + ",confirmed,ticket,ann,2,2 3,2030-01-01T11:00:00.005Z,,\n"
	if out.String() != want {
		t.Errorf("%s, want %s", &out, want)
	}
	out.Reset()
	if err := WriteOrders(t.Context(), &out, export.NDJSON, &sold{n: 1}, "concert"); err != nil {
		t.Fatal(err)
	}
	want = `{"order_id":"` + id(1).String() + `","status":"confirmed","item":"ticket","user":"ann","quantity":2,"units":[2,3],` +
		`"accepted_at":"2030-01-01T11:00:00.005Z","confirmed_at":null,"reason":null}` + "\n"
	if out.String() != want {
		t.Errorf("%s, want %s", &out, want)
	}
}

func TestAllPages(t *testing.T) {
	for _, n := range []int{0, 1, export.PageSize - 1, export.PageSize, export.PageSize + 1, 3 * export.PageSize} {
		var out bytes.Buffer
		from := &sold{n: n}
		if err := WriteOrders(t.Context(), &out, export.CSV, from, "concert"); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(&out).ReadAll()
		if err != nil || len(rows) != n+1 {
			t.Errorf("%d rows of %d orders, %v", len(rows), n, err)
		}
		for i, row := range rows[min(1, len(rows)):] {
			if row[0] != id(i+1).String() {
				t.Fatalf("row %d is %s", i, row[0])
			}
		}
	}
}

func TestWhatEndsIt(t *testing.T) {
	gone, stop := context.WithCancelCause(t.Context())
	stop(errors.New("the client"))
	for name, tt := range map[string]struct {
		ctx  context.Context
		from *sold
		sale string
		want string
		rows bool
	}{
		"no such sale":      {t.Context(), &sold{}, "none", orders.ErrUnknownSale.Error(), false},
		"the client":        {gone, &sold{n: 5}, "concert", "the client", false},
		"no second page":    {t.Context(), &sold{n: 2 * export.PageSize, err: orders.ErrUnavailable}, "concert", orders.ErrUnavailable.Error(), true},
		"nobody reads them": {t.Context(), &sold{n: 2 * export.PageSize}, "concert", "short write", true},
	} {
		var out bytes.Buffer
		w := &limited{&out, 1 << 30}
		if name == "nobody reads them" {
			w.left = 1000
		}
		err := WriteOrders(tt.ctx, w, export.CSV, tt.from, tt.sale)
		if err == nil || !strings.Contains(err.Error(), tt.want) || out.Len() > 0 != tt.rows || tt.from.asked > 2 {
			t.Errorf("%s: %v after %d bytes and %d pages", name, err, out.Len(), tt.from.asked)
		}
	}
}

type limited struct {
	*bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return l.Buffer.Write(p[:1])
	}
	return l.Buffer.Write(p)
}
