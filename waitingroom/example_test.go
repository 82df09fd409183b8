package waitingroom_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tidegate/tidegate/migrations"
	"github.com/tidegate/tidegate/orders/sqlite"
	"github.com/tidegate/tidegate/waitingroom"
)

// example returns rooms in a database of their own, and a function that ends them.
func example() (*waitingroom.Service, func()) {
	folder, err := os.MkdirTemp("", "waitingroom")
	if err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(folder, "rooms.db")+"?"+sqlite.Options)
	if err != nil {
		log.Fatal(err)
	}
	if err := migrations.SQLite(context.Background(), db); err != nil {
		log.Fatal(err)
	}
	rooms := waitingroom.New(waitingroom.SQLite(db, &sync.Mutex{}), waitingroom.Options{
		Secret: []byte("a secret of at least 32 bytes ..."), Logger: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = rooms.Run(ctx) })
	return rooms, func() {
		cancel()
		running.Wait()
		_ = db.Close()
		_ = os.RemoveAll(folder)
	}
}

// One person at a time: Ann is first, and Bob's turn comes when she is done.
func Example() {
	rooms, end := example()
	defer end()
	ctx := context.Background()
	if _, _, err := rooms.Put(ctx, waitingroom.Definition{
		Room: "desk", Mode: waitingroom.ModeFIFO, GatherAt: time.Now(), StartsAt: time.Now(), Capacity: 1, RequiresUser: true,
		ClaimWindow: waitingroom.DefaultClaimWindow, PassLifetime: waitingroom.DefaultPassLifetime, Bound: waitingroom.BoundStrict,
	}); err != nil {
		log.Fatal(err)
	}
	ann, bob := waitingroom.Visitor{User: "ann"}, waitingroom.Visitor{User: "bob"}
	for _, who := range []waitingroom.Visitor{ann, bob} {
		if _, refusal, err := rooms.Join(ctx, "desk", who, 1); err != nil || refusal != nil {
			log.Fatal(refusal, err)
		}
	}
	show := func(who waitingroom.Visitor, p waitingroom.Place, err error) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(who.User, "at position", p.Position, "is", p.State)
	}
	p, err := rooms.Wait(ctx, "desk", ann, waitingroom.StateWaiting, time.Minute)
	show(ann, p, err)
	if _, refusal, err := rooms.Claim(ctx, "desk", bob); err == nil && refusal != nil {
		fmt.Println("bob claims:", refusal.Reason)
	}
	p, _, err = rooms.Claim(ctx, "desk", ann)
	show(ann, p, err)
	p, err = rooms.Place(ctx, "desk", bob)
	show(bob, p, err)
	p, _, err = rooms.Finish(ctx, "desk", ann)
	show(ann, p, err)
	p, err = rooms.Wait(ctx, "desk", bob, waitingroom.StateWaiting, time.Minute)
	show(bob, p, err)
	// Output:
	// ann at position 1 is turn
	// bob claims: not_your_turn
	// ann at position 1 is admitted
	// bob at position 2 is waiting
	// ann at position 1 is done
	// bob at position 2 is turn
}

// A shop's own server verifies a pass without asking anybody: with the keys, or in Go with VerifyPass.
func ExampleService_VerifyPass() {
	rooms := waitingroom.New(nil, waitingroom.Options{Secret: []byte("a secret of at least 32 bytes ...")})
	now := time.Now()
	pass, err := rooms.Pass(waitingroom.Place{ // of Claim
		Room: "desk", State: waitingroom.StateAdmitted, Number: 1, Position: 1, User: "ann", AdmittedAt: now, PassUntil: now.Add(time.Minute),
	})
	if err != nil {
		log.Fatal(err)
	}
	claims, err := rooms.VerifyPass("desk", pass, now)
	fmt.Println(claims.Account(), claims.Position, err)
	_, err = rooms.VerifyPass("desk", pass, now.Add(time.Minute))
	fmt.Println("expired:", err != nil)
	// Output:
	// ann 1 <nil>
	// expired: true
}
