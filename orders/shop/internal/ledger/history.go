package ledger

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// history keeps the latest committed orders that a ledger has seen: those that this process accepted, with what is needed to commit
// them again, and others that it read. It has no pointers for each order, which the garbage collector would have to follow: the
// orders are bytes in blocks, and a block that is too old is dropped as a whole. Not safe for concurrent use.
type history struct {
	max    int // at least so many of the latest orders are kept
	blocks []*block
	first  uint64 // number of blocks[0]
	kept   int
	since  time.Time // orders that were committed later have not been dropped
	// The latest place of an order that may have to be committed again, by its id, and of the order of an identity.
	byID, byIdentity map[uint64]place
	seed             maphash.Seed
}

// blockMax is how many orders are in a block, and asked for in one query.
const blockMax = 1000

// A block is records one after another. It is complete when its last order has come.
type block struct {
	starts []uint32
	data   []byte
	last   time.Time
}

// place is the number of a block, and the index of a record in it.
type place uint64

func placeOf(number uint64, index int) place { return place(number<<32 | uint64(index)) }

// record is an order in the history. Of an order that may still change only the id and the quantity are used.
type record struct {
	Identity
	what  Kind
	order orders.Order
	epoch int64 // of the reservation; 0 if there is nothing to commit again
}

func newHistory(most int) *history {
	return &history{max: most, since: time.Now(), byID: make(map[uint64]place), byIdentity: make(map[uint64]place), seed: maphash.MakeSeed()}
}

// add stores an order, in place of what is known of it. known: it is the order of its identity.
func (h *history) add(rec *record, known bool, now time.Time) {
	if len(h.blocks) == 0 || len(h.blocks[len(h.blocks)-1].starts) == min(blockMax, h.max) {
		next := &block{}
		if len(h.blocks) > 0 { // the next block will be about as large
			b := h.blocks[len(h.blocks)-1]
			next = &block{starts: make([]uint32, 0, len(b.starts)), data: make([]byte, 0, len(b.data)+len(b.data)/16)}
		}
		h.blocks = append(h.blocks, next)
	}
	b := h.blocks[len(h.blocks)-1]
	p := placeOf(h.first+uint64(len(h.blocks)-1), len(b.starts))
	who := h.hash(rec.Identity)
	b.starts = append(b.starts, uint32(len(b.data)))
	b.data, b.last = rec.append(b.data, who), now
	h.kept++
	h.dropOld()
	if rec.epoch > 0 {
		h.byID[random(rec.order.ID)] = p
	}
	if known {
		h.byIdentity[who] = p
	}
}

// dropOld drops the blocks without which max orders are left.
func (h *history) dropOld() {
	for len(h.blocks) > 0 && h.kept-len(h.blocks[0].starts) >= h.max {
		b := h.blocks[0]
		for i := range b.starts {
			id, who, _ := b.fields(i)
			p := placeOf(h.first, i)
			if h.byID[random(id)] == p {
				delete(h.byID, random(id))
			}
			if h.byIdentity[who] == p {
				delete(h.byIdentity, who)
			}
		}
		h.blocks[0] = nil
		h.blocks, h.first, h.kept, h.since = h.blocks[1:], h.first+1, h.kept-len(b.starts), b.last
	}
}

// end keeps an order that no longer owns its units from being committed again.
func (h *history) end(id orders.ID) {
	if p, ok := h.byID[random(id)]; ok && h.at(p).order.ID == id {
		delete(h.byID, random(id))
	}
}

// order returns the order of an identity.
func (h *history) order(who Identity) (record, bool) {
	p, ok := h.byIdentity[h.hash(who)]
	if !ok {
		return record{}, false
	}
	rec := h.at(p)
	return rec, rec.Identity == who
}

// forget removes the order of an identity. It may still be committed again.
func (h *history) forget(who Identity) {
	if _, ok := h.order(who); ok {
		delete(h.byIdentity, h.hash(who))
	}
}

// accepted returns an order that may have to be committed again.
func (h *history) accepted(id orders.ID) (orders.Reservation, bool) {
	p, ok := h.byID[random(id)]
	if !ok {
		return orders.Reservation{}, false
	}
	rec := h.at(p)
	return rec.reservation(), rec.order.ID == id
}

// acceptedIn returns those of a block that are of a sale, or of all if it is empty, and of epochs before one. next is the number
// of the next block, or 0 after the last one.
func (h *history) acceptedIn(number uint64, sale string, before int64) (ids []orders.ID, next uint64) {
	number = max(number, h.first)
	if number >= h.first+uint64(len(h.blocks)) {
		return nil, 0
	}
	b := h.blocks[number-h.first]
	for i := range b.starts {
		id, _, f := b.fields(i)
		epoch := f.number()
		if epoch > 0 && epoch < before && (sale == "" || string(f.bytes()) == sale) && h.byID[random(id)] == placeOf(number, i) {
			ids = append(ids, id)
		}
	}
	return ids, number + 1
}

func (h *history) at(p place) record {
	return h.blocks[uint64(p>>32)-h.first].record(int(p & (1<<32 - 1)))
}

func (h *history) hash(who Identity) uint64 { return maphash.Comparable(h.seed, who) }

// random is the random part of an id.
func random(id orders.ID) uint64 { return binary.BigEndian.Uint64(id[8:]) }

func (rec *record) reservation() orders.Reservation {
	o := &rec.order
	return orders.Reservation{
		ID: o.ID, Epoch: rec.epoch, Sale: o.Sale, Item: o.Item, Buyer: o.Buyer, BuyerHash: rec.Buyer, KeyHash: rec.Key,
		Quantity: o.Quantity, Units: o.Units, AcceptedMS: o.AcceptedAt.UnixMilli(),
	}
}

var statuses = []orders.Status{
	orders.StatusAccepted, orders.StatusConfirmed, orders.StatusPaid, orders.StatusCancelled,
	orders.StatusExpired, orders.StatusRejected,
}

func (rec *record) append(b []byte, who uint64) []byte {
	o := &rec.order
	b = binary.BigEndian.AppendUint64(append(b, o.ID[:]...), who)
	b = binary.AppendVarint(b, rec.epoch)
	b = appendBytes(b, o.Sale)
	for _, s := range [...]string{o.Item, o.Buyer, rec.Buyer, rec.Key} {
		b = appendBytes(b, s)
	}
	for _, n := range [...]int64{
		int64(rec.Item), int64(rec.what), int64(slices.Index(statuses, o.Status)), int64(o.Quantity),
		micros(o.AcceptedAt), micros(o.ConfirmedAt), micros(o.PayBefore), int64(len(o.Units)),
	} {
		b = binary.AppendVarint(b, n)
	}
	for _, unit := range o.Units {
		b = binary.AppendVarint(b, int64(unit))
	}
	return b
}

// fields returns the id of a record, the hash of its identity, and the rest.
func (b *block) fields(i int) (id orders.ID, who uint64, rest fields) {
	f := b.data[b.starts[i]:]
	return orders.ID(f), binary.BigEndian.Uint64(f[16:]), fields(f[24:])
}

func (b *block) record(i int) (rec record) {
	o := &rec.order
	id, _, f := b.fields(i)
	o.ID = id
	rec.epoch = f.number()
	for _, s := range [...]*string{&o.Sale, &o.Item, &o.Buyer, &rec.Buyer, &rec.Key} {
		*s = string(f.bytes())
	}
	rec.Item, rec.what, o.Status, o.Quantity = int(f.number()), Kind(f.number()), statuses[f.number()], int(f.number())
	o.AcceptedAt, o.ConfirmedAt, o.PayBefore = f.time(), f.time(), f.time()
	if units := int(f.number()); units > 0 {
		o.Units = make([]int, units)
		for i := range o.Units {
			o.Units[i] = int(f.number())
		}
	}
	return rec
}

func appendBytes(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// micros is 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// fields is what is left of a record.
type fields []byte

func (f *fields) number() int64 {
	n, size := binary.Varint(*f)
	*f = (*f)[size:]
	return n
}

func (f *fields) bytes() []byte {
	n, size := binary.Uvarint(*f)
	s := (*f)[size : size+int(n)]
	*f = (*f)[size+int(n):]
	return s
}

func (f *fields) time() time.Time {
	n := f.number()
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}
