package memory_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/inspection"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/memory"
	"github.com/tidegate/tidegate/orders/sqlite"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// TestItDoesWhatADatabaseDoes: any sequence of operations has the same results in SQLite.
func TestItDoesWhatADatabaseDoes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		stores := []storage.Store{memory.New(memory.Options{}), sqlite.New(databases.OpenSQLite(t))}
		both := func(what string, call func(storage.Store) []any) {
			var results [2][]any
			for i, s := range stores {
				results[i] = call(s)
				for j, result := range results[i] {
					if err, ok := result.(error); ok {
						results[i][j] = err.Error()
					}
				}
			}
			diff := cmp.Diff(results[1], results[0], cmpopts.EquateEmpty(), cmpopts.IgnoreFields(orders.Sale{}, "Salt"), times)
			if diff != "" {
				rt.Fatalf("%s (-SQLite +memory):\n%s", what, diff)
			}
		}
		both("a sale", putSale(rt, stores[0]))
		for range rapid.IntRange(1, 40).Draw(rt, "operations") {
			op := rapid.SampledFrom(operations).Draw(rt, "operation")(rt, stores[0])
			both("result", op)
		}
		both("rows", rows(t.Context()))
	})
}

// times compares whether there is a time, because the two stores read the clock apart from each other.
var times = cmp.FilterPath(func(p cmp.Path) bool {
	name := p.Last().String()
	return name == ".At" || name == ".ConfirmedAt" || name == ".PayBefore"
}, cmp.Comparer(func(a, b time.Time) bool { return a.IsZero() == b.IsZero() && a.Sub(b).Abs() < time.Hour }))

var (
	aSale      = rapid.SampledFrom([]string{"spring", "spring", "autumn"})
	anItem     = rapid.SampledFrom([]string{"hat", "hat", "hat", "shoe", "belt"})
	aToken     = rapid.SampledFrom([]string{"a", "b"})
	aHash      = rapid.SampledFrom([]string{"ann", "bob"})
	aKey       = rapid.SampledFrom([]string{"", "x", "y"})
	aReference = rapid.SampledFrom([]string{"pi_1", "pi_2", "pi_3"})
	aSwitch    = rapid.SampledFrom([]orders.Switch{orders.SwitchOpen, orders.SwitchPaused, orders.SwitchClosed})
	anEpoch    = rapid.SampledFrom([]int64{1, 1, 1, 1, 1, 2, 3}) // rarely raised, and then all is stale
	anID       = rapid.Custom(func(rt *rapid.T) orders.ID { return numbered(rapid.IntRange(0, 9).Draw(rt, "id")) })
	someIDs    = rapid.SliceOfNDistinct(anID, 0, 5, rapid.ID[orders.ID])
	aReason    = rapid.SampledFrom([]orders.Reason{"", "", "", orders.ReasonRecoveredLate, orders.ReasonDuplicate})
	units      = rapid.SliceOfNDistinct(rapid.IntRange(1, 7), 1, 3, rapid.ID[int])

	aReservation = rapid.Custom(func(rt *rapid.T) orders.Reservation {
		r := orders.Reservation{
			ID: anID.Draw(rt, "id"), Epoch: anEpoch.Draw(rt, "epoch"), Sale: "spring", Item: anItem.Draw(rt, "item"), Buyer: "buyer",
			BuyerHash: aHash.Draw(rt, "buyer"), KeyHash: aKey.Draw(rt, "key"), Units: units.Draw(rt, "units"),
			Reason: aReason.Draw(rt, "reason"), AcceptedMS: rapid.Int64Range(1e12, 1e12+9).Draw(rt, "accepted"),
		}
		if r.Quantity = len(r.Units); r.ID[15]%3 == 0 { // an order stays in its sale
			r.Sale = "autumn"
		}
		return r
	})
)

type call = func(storage.Store) []any

// operations draw a call.
var operations = []func(rt *rapid.T, s storage.Store) call{
	putSale, commitBatch, commitBatch, commitBatch, commitBatch, cancel, cancel, cancel,
	func(rt *rapid.T, _ storage.Store) call {
		sale, to := aSale.Draw(rt, "sale"), aSwitch.Draw(rt, "to")
		return func(s storage.Store) []any { return []any{s.SetSwitch(rt.Context(), sale, to)} }
	},
	func(rt *rapid.T, _ storage.Store) call {
		lead := storage.Lead{Sale: aSale.Draw(rt, "sale"), Epoch: anEpoch.Draw(rt, "epoch"), Token: aToken.Draw(rt, "token")}
		return func(s storage.Store) []any { return []any{s.RaiseEpoch(rt.Context(), lead.Epoch-1, lead)} }
	},
	func(rt *rapid.T, _ storage.Store) call {
		lead := storage.Lead{Sale: aSale.Draw(rt, "sale"), Epoch: anEpoch.Draw(rt, "epoch"), Token: aToken.Draw(rt, "token")}
		return func(s storage.Store) []any { return []any{s.EndHandOver(rt.Context(), lead, nil)} }
	},
	func(rt *rapid.T, _ storage.Store) call {
		sale, late := aSale.Draw(rt, "sale"), rapid.SliceOfN(aReservation, 0, 2).Draw(rt, "late")
		late = slices.DeleteFunc(late, func(r orders.Reservation) bool { return r.Sale != sale })
		return func(s storage.Store) []any { return []any{s.Acknowledge(rt.Context(), sale, 1, "process", late)} }
	},
	func(rt *rapid.T, _ storage.Store) call {
		ids := someIDs.Draw(rt, "ids")
		return func(s storage.Store) []any { return []any{s.DeleteLate(rt.Context(), ids)} }
	},
	func(rt *rapid.T, _ storage.Store) call {
		r, reason := aReservation.Draw(rt, "letter"), aToken.Draw(rt, "reason")
		return func(s storage.Store) []any { return []any{s.AddDeadLetter(rt.Context(), r, reason)} }
	},
	func(rt *rapid.T, _ storage.Store) call {
		r := aReservation.Draw(rt, "letter")
		back := []storage.Return{{ID: r.ID, Sale: r.Sale, Item: r.Item, BuyerHash: r.BuyerHash, Quantity: r.Quantity, Units: r.Units}}
		return func(s storage.Store) []any { return []any{s.DeleteDeadLetter(rt.Context(), r.ID, back)} }
	},
	func(rt *rapid.T, _ storage.Store) call {
		id, reference := anID.Draw(rt, "id"), aReference.Draw(rt, "reference")
		return func(s storage.Store) []any {
			p, err := s.Capture(rt.Context(), id, reference)
			if err != nil {
				return []any{err}
			}
			return []any{p}
		}
	},
	func(rt *rapid.T, _ storage.Store) call { // SQLite pays several in the order of a map
		references := map[orders.ID]string{anID.Draw(rt, "id"): aReference.Draw(rt, "reference")}
		return func(s storage.Store) []any {
			paid, err := s.Pay(rt.Context(), references)
			return []any{paid, err}
		}
	},
	func(rt *rapid.T, _ storage.Store) call {
		ids := someIDs.Draw(rt, "ids")
		return func(s storage.Store) []any { return []any{s.Returned(rt.Context(), ids)} }
	},
}

// numbered returns a valid id.
func numbered(n int) orders.ID { return orders.ID{0: 0x80, 6: 0x80, 8: 0x80, 15: byte(n)} }

func compareIDs(a, b orders.ID) int { return bytes.Compare(a[:], b[:]) }

func cancel(rt *rapid.T, _ storage.Store) call {
	ids := someIDs.Draw(rt, "ids")
	slices.SortFunc(ids, compareIDs)
	return func(s storage.Store) []any {
		ended, err := s.Cancel(rt.Context(), ids)
		return []any{ended, err}
	}
}

func putSale(rt *rapid.T, _ storage.Store) call {
	start := time.UnixMilli(4_000_000_000_000)
	def := orders.Sale{
		ID: aSale.Draw(rt, "sale"), StartsAt: start, EndsAt: start.Add(time.Hour),
		Hold:     rapid.SampledFrom([]time.Duration{0, time.Hour, time.Hour, time.Hour}).Draw(rt, "hold"),
		Revision: rapid.SampledFrom([]int64{0, 0, 0, 1}).Draw(rt, "revision"),
	}
	for _, item := range []string{"hat", "shoe"}[:rapid.IntRange(1, 2).Draw(rt, "items")] {
		def.Items = append(def.Items, orders.Item{
			ID: item, Stock: rapid.IntRange(4, 6).Draw(rt, "stock"), QuotaPerBuyer: rapid.IntRange(1, 2).Draw(rt, "quota"),
			InFlightMax: 1, Final: rapid.IntRange(0, 9).Draw(rt, "final") == 0,
		})
	}
	return func(s storage.Store) []any {
		sale, created, added, err := s.PutSale(rt.Context(), def)
		if err != nil {
			return []any{err}
		}
		return []any{sale, created, added}
	}
}

// commitBatch draws a batch in the order of the ids, in which Postgres and memory write it, and without orders that are both stored and
// stale: SQLite reports the one, and Postgres and memory the other.
func commitBatch(rt *rapid.T, s storage.Store) call {
	batch := rapid.SliceOfNDistinct(aReservation, 1, 4, func(r orders.Reservation) orders.ID { return r.ID }).Draw(rt, "batch")
	slices.SortFunc(batch, func(a, b orders.Reservation) int { return compareIDs(a.ID, b.ID) })
	sales, err := s.Sales(rt.Context(), []string{"spring", "autumn"})
	if err != nil {
		rt.Fatal(err)
	}
	batch = slices.DeleteFunc(batch, func(r orders.Reservation) bool {
		found, err := s.Statuses(rt.Context(), []orders.ID{r.ID})
		stale := !slices.ContainsFunc(sales, func(s orders.Sale) bool {
			return s.ID == r.Sale && s.EpochFloor <= r.Epoch && r.Epoch <= s.Epoch
		})
		return err != nil || stale && found[r.ID] != ""
	})
	return func(s storage.Store) []any {
		verdicts, err := s.Commit(rt.Context(), batch)
		return []any{verdicts, err}
	}
}

// rows reads everything.
func rows(ctx context.Context) call {
	return func(s storage.Store) (all []any) {
		add := func(result any, err error) { all = append(all, result, err) }
		names := []string{"spring", "autumn"}
		sales, err := s.Sales(ctx, names)
		add(sales, err)
		events, err := s.Events(ctx, 0, 1000)
		add(events, err)
		newest, there, err := s.Newest(ctx, storage.LastEvent{Seq: 2, Order: numbered(1)})
		add([]any{newest, there}, err)
		returns, err := s.Returns(ctx, "", 1000)
		slices.SortFunc(returns, func(a, b storage.Return) int { return compareIDs(a.ID, b.ID) })
		add(returns, err)
		letters, err := s.DeadLetters(ctx, orders.ID{}, 1000)
		add(letters, err)
		var ids []orders.ID
		for i := range 10 {
			ids = append(ids, numbered(i))
		}
		committed, err := s.Committed(ctx, ids)
		add(committed, err)
		statuses, err := s.Statuses(ctx, ids)
		add(statuses, err)
		for _, sale := range names {
			for _, f := range []storage.Filter{
				{Limit: 100}, {Limit: 2, After: ids[3]}, {Limit: 9, BuyerHash: "ann"}, {Limit: 9, Status: orders.StatusAccepted},
			} {
				f.Sale = sale
				list, err := s.Orders(ctx, f)
				add(list, err)
			}
			late, err := s.Late(ctx, sale)
			add(late, err)
			totals, err := s.Totals(ctx, sale)
			add(totals, err)
			inspected, err := s.Inspect(ctx, sale, time.Minute)
			slices.SortFunc(inspected.Breaches, func(a, b inspection.Breach) int { return strings.Compare(a.What, b.What) })
			add(inspected, err)
			held := make(map[orders.ID]storage.Holding)
			add(held, s.Holdings(ctx, sale, func(h storage.Holding) error { held[h.ID] = h; return nil }))
			owners := make(map[string]orders.ID)
			add(owners, s.Owners(ctx, sale, []string{"hat", "shoe"}, func(item string, unit int, id orders.ID) {
				owners[fmt.Sprint(item, unit)] = id
			}))
			for _, item := range []string{"hat", "shoe"} {
				unsettled, err := s.Unsettled(ctx, sale, item)
				add(unsettled, err)
				latest, err := s.Latest(ctx, sale, item, []string{"ann", "bob"})
				times := make(map[string]time.Time) // two may have been accepted at the same time
				for buyer := range latest {
					times[buyer] = latest[buyer].AcceptedAt
				}
				add(times, err)
			}
		}
		return all
	}
}
