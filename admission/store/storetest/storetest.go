// Package storetest is the specification of store.Store, as tests that every store passes.
package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission/store"
)

// An Opener opens a store that has no data of the namespaces of this process. now is its clock; nil means the store's own.
type Opener func(now func() time.Time) store.Store

// Run tests the stores that open returns.
func Run(t *testing.T, open Opener) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Opener)
	}{
		{"Algorithms", testAlgorithms},
		{"StruckExactlyAtTheNth", testStruckExactlyAtTheNth},
		{"WhoStrikes", testWhoStrikes},
		{"RejectCountsWhatWasRefusedElsewhere", testRejectCountsWhatWasRefusedElsewhere},
		{"CalendarWindows", testCalendarWindows},
		{"AClockThatIsSetRight", testAClockThatIsSetRight},
		{"AllOrNothingOfTallies", testAllOrNothingOfTallies},
		{"RejectedUnitsCountWithCountRejected", testRejectedUnitsCountWithCountRejected},
		{"ResetForgetsOneSubjectInOneWindow", testResetForgetsOneSubjectInOneWindow},
		{"TwoThirdsOfASecond", testTwoThirdsOfASecond},
		{"ExactlyTheLimitWhateverCounts", testExactlyTheLimitWhateverCounts},
		{"ListenersReceive", testListenersReceive},
		{"AddAndErase", testAddAndErase},
		{"AddCountsInEveryTally", testAddCountsInEveryTally},
		{"EraseTakesFromEveryLogAndNothingElse", testEraseTakesFromEveryLogAndNothingElse},
		{"AddsAtTheSameTime", testAddsAtTheSameTime},
		{"NothingFitsIntoALimitOfZero", testNothingFitsIntoALimitOfZero},
		{"NoCostIsTooLargeToBeRefused", testNoCostIsTooLargeToBeRefused},
		{"WaitingRetryAfterIsEnough", testWaitingRetryAfterIsEnough},
		{"ALargeCounterWaitsLongEnough", testALargeCounterWaitsLongEnough},
		{"AResendIsAnsweredAsBefore", testAResendIsAnsweredAsBefore},
		{"AResendThatAsksMore", testAResendThatAsksMore},
		{"ARefusedRequestHasNoPlace", testARefusedRequestHasNoPlace},
		{"ARequestIsRefundedOnce", testARequestIsRefundedOnce},
		{"RequestsAreForgottenAfterAMinute", testRequestsAreForgottenAfterAMinute},
		{"TheLastRequestsAreKnown", testTheLastRequestsAreKnown},
		{"PitfallP01EqualTimesCountEach", testPitfallP01EqualTimesCountEach},
		{"PitfallP02NobodyIsRefusedOnceTheWindowHasEnded", testPitfallP02NobodyIsRefusedOnceTheWindowHasEnded},
		{"PitfallP03HitsDoNotMoveTheEnd", testPitfallP03HitsDoNotMoveTheEnd},
		{"PitfallP05TheOldWindowDoesNotCountInTheNew", testPitfallP05TheOldWindowDoesNotCountInTheNew},
		{"PitfallP06RejectedRequestsAreNotCounted", testPitfallP06RejectedRequestsAreNotCounted},
		{"PitfallP08TimesAreExact", testPitfallP08TimesAreExact},
		{"PitfallP13NothingIsLeftIsNothing", testPitfallP13NothingIsLeftIsNothing},
		{"PitfallP22TheEndIsOneInstant", testPitfallP22TheEndIsOneInstant},
		{"PitfallP29ABatchAboveTheLimitNeverPasses", testPitfallP29ABatchAboveTheLimitNeverPasses},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open) })
	}
}

// Epoch is the first time of a Clock.
var Epoch = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// A Clock stands still until a test sets it. Make it with NewClock; it is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time // guarded by mu
}

// NewClock returns a Clock that shows Epoch.
func NewClock() *Clock { return &Clock{now: Epoch} }

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// At sets the clock to a time after Epoch.
func (c *Clock) At(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = Epoch.Add(d)
}

// Advance puts the clock forward.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

var namespaces atomic.Int64

// Namespace returns one that no other test has, so that tests share a server.
func Namespace() string { return fmt.Sprintf("test-%d-%d", time.Now().UnixNano(), namespaces.Add(1)) }
