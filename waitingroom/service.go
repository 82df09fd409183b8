package waitingroom

import (
	"context"
	"crypto"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/waitingroom/draw"
	"github.com/tidegate/tidegate/waitingroom/internal/pass"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// Options of a Service.
type Options struct {
	// Secret is the key that tokens, receipts and, without Signer, passes derive from. Required.
	Secret []byte
	// PreviousSecret is the one before, whose tokens and passes are still accepted. Optional.
	PreviousSecret []byte
	// Signer is the key of passes: an ed25519.PrivateKey, which gives EdDSA, or an *rsa.PrivateKey of at least 2048 bits, which
	// gives RS256; ParseSigner returns one. New panics on another key. All processes need the same. Nil: an Ed25519 key that Secret gives.
	Signer crypto.Signer
	// PreviousSigner is the one before, or the one to come: its passes are accepted, and PublicKeys has it, but nothing is signed with it.
	// Nil: without a Signer the key that PreviousSecret gives, otherwise none.
	PreviousSigner crypto.Signer
	// Stock is needed for rooms that belong to a sale.
	Stock Stock
	// KeepAfterEnd is how long after its end a room is deleted, with its places. Its name stays, as that of a closed room. Zero: never.
	KeepAfterEnd time.Duration
	// Banned returns why a user may not have a turn, or "", and whose ban it is, for operators. Nil: no user is banned.
	Banned func(user string) (why, by string)
	// Beacon returns the signature of a round of drand, in hexadecimal, for rooms with a beacon. Nil: they wait until SetBeacon is called.
	Beacon func(ctx context.Context, round int64) (signature string, err error)
	// Changed is called after this process gave turns or changed a room, so that it can ask the other processes to Wake. It must not block.
	// Nil: they read that within 0.2 seconds, or within a second while all rooms rest.
	Changed func()
	// Logger receives the messages for operators. Default: slog.Default().
	Logger *slog.Logger
}

// Service runs waiting rooms. Every process of an installation has one. Make it with New; safe for concurrent use.
type Service struct {
	opts    Options
	store   Store
	keys    *pass.Keys
	views   atomic.Pointer[map[string]*view]
	damaged atomic.Pointer[map[string]error] // why the last refresh could not read a room, by its name
	now     func() time.Time                 // set only in tests

	joining  *batchers[*joinCall, joined]
	claiming *batchers[*claimCall, claimed]
	leaving  *batchers[int64, bool]          // numbers, and which places have left
	reading  *batchers[string, *store.Place] // subjects

	wake       chan struct{}         // another process has changed a room
	refreshing chan struct{}         // a lock: holds one element while a refresh is under way
	trees      map[string]*draw.Tree // by room, guarded by refreshing: the leaves of those that will be drawn
	refreshed  time.Time             // guarded by refreshing: when the last refresh began, or failed
	refreshErr error                 // guarded by refreshing: of the last refresh
	damagedAt  time.Time             // guarded by refreshing: when it was last logged that a room cannot be read
}

const (
	idleRefresh = 2 * time.Second // when no room is open
	restRefresh = time.Second     // when all rest
	roomsAtOnce = 4               // ticks, each of which may need two connections
	tickTimeout = 2 * time.Second
	drawTimeout = time.Minute // a process that has just started reads the whole list
)

// New returns a service over a store. It sends nothing.
func New(rooms Store, opts Options) *Service {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Banned == nil {
		opts.Banned = func(string) (why, by string) { return "", "" }
	}
	if opts.Changed == nil {
		opts.Changed = func() {}
	}
	s := &Service{
		opts: opts, store: rooms, now: time.Now,
		keys: pass.NewKeys(opts.Secret, opts.PreviousSecret, opts.Signer, opts.PreviousSigner), trees: make(map[string]*draw.Tree),
		wake: make(chan struct{}, 1), refreshing: make(chan struct{}, 1),
	}
	s.views.Store(&map[string]*view{})
	s.damaged.Store(&map[string]error{})
	s.joining = newBatchers(s.joinBatch)
	s.claiming = newBatchers(s.claimBatch)
	s.leaving = newBatchers(s.leaveBatch)
	s.reading = newBatchers(s.readBatch)
	return s
}

// Run gives turns, keeps this process's copy of the rooms current and deletes old rooms, until ctx ends. It then returns nil.
func (s *Service) Run(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { s.runTicks(ctx); return nil })
	if s.opts.Beacon != nil {
		g.Go(func() error {
			_ = periodic.Woken(ctx, beaconEvery, nil, func() { s.fetchBeacons(ctx) })
			return nil
		})
	}
	if s.opts.Stock != nil || s.opts.KeepAfterEnd > 0 {
		g.Go(func() error {
			_ = periodic.Woken(ctx, pruneEvery, nil, func() {
				if err := s.unguardClosed(ctx); err != nil && ctx.Err() == nil {
					s.opts.Logger.WarnContext(ctx, "items of closed waiting rooms may still need turns", slog.Any("error", err))
				}
				if s.opts.KeepAfterEnd == 0 {
					return
				}
				if err := s.prune(ctx); err != nil && ctx.Err() == nil {
					s.opts.Logger.WarnContext(ctx, "old waiting rooms could not be deleted", slog.Any("error", err))
				}
			})
			return nil
		})
	}
	return g.Wait()
}

// Wake makes Run read the rooms now. It does not block.
func (s *Service) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Service) runTicks(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.tickRooms(ctx)
		if ctx.Err() != nil {
			return
		}
		next := s.nextRound()
		if err != nil {
			s.opts.Logger.WarnContext(ctx, "the waiting rooms could not be read, and no turns are given", slog.Any("error", err))
			next = time.Second
		}
		pause := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-pause.C:
		}
		pause.Stop()
	}
}

// tickRooms gives turns in every room that does not rest, looks at the others, and then reads all rooms. In rooms whose rest it finds to
// have ended it gives turns at once.
func (s *Service) tickRooms(ctx context.Context) error {
	began, done := time.Now(), make(map[string]bool)
	s.attend(ctx, func(v *view, local time.Time) job {
		switch {
		case s.needsTicks(v, local):
			done[v.room.def.Room] = true
			return s.tickView
		case s.looks(v, local) && time.Since(began) < lookWithin:
			v.usage.looked = local
			return s.look
		}
		return nil
	})
	if err := s.refresh(ctx); err != nil {
		return err
	}
	if s.attend(ctx, func(v *view, local time.Time) job {
		if !done[v.room.def.Room] && s.needsTicks(v, local) {
			return s.tickView
		}
		return nil
	}) == 0 {
		return nil
	}
	return s.refresh(ctx)
}

// A job does something to a room, and reports whether people who wait have something to learn.
type job func(ctx context.Context, v *view) (changed bool, err error)

// attend does the jobs that choose returns, some at a time, and returns their number. choose is called when the job would begin.
func (s *Service) attend(ctx context.Context, choose func(v *view, local time.Time) job) (n int) {
	var g errgroup.Group
	g.SetLimit(roomsAtOnce)
	var moved atomic.Bool
	for _, v := range *s.views.Load() {
		do := choose(v, s.now())
		if do == nil {
			continue
		}
		n++
		g.Go(func() error {
			timeout := tickTimeout
			if v.room.def.Mode == ModeDraw && !v.room.drawn() {
				timeout = drawTimeout
			}
			within, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			switch changed, err := do(within, v); {
			case changed:
				moved.Store(true)
			case err != nil && ctx.Err() == nil: // the other rooms go on
				s.opts.Logger.WarnContext(ctx, "no turns could be given in a waiting room", slog.String("room", v.room.def.Room),
					slog.Any("error", err))
			}
			return nil
		})
	}
	_ = g.Wait()
	if moved.Load() {
		s.opts.Changed()
	}
	return n
}

// tickView ticks a room, unless this process has just done it.
func (s *Service) tickView(ctx context.Context, v *view) (changed bool, err error) {
	local := s.now()
	if since := local.Sub(v.usage.ticked); since >= 0 && since < tickEvery*3/4 {
		return false, nil
	}
	changed, err = s.tick(ctx, v.room.def.Room)
	if err == nil {
		v.usage.ticked = local
	}
	return changed, err
}

// runs reports whether a room needs ticks: it is open, or passes of it may still be used.
func (r *room) runs() bool { return r.ended() == "" || r.saved.Promised > 0 }
