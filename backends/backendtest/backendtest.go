// Package backendtest is the suite that every store must pass: what the protocol needs of it, one
// named subtest each. A store's own test calls Run with a Harness that opens clients of a real server.
//
// The suite uses the contract alone and moves no clock: it shows that a transaction is refused when its condition does
// not hold and takes effect when it does, that nothing is left behind, and that the watch says what it must. It cannot
// show that writes are linearizable; the histories of the fault tests do that.
package backendtest

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// Harness is a store under test and what can be done to it from outside. The functions fail the test themselves.
// Those that may be nil are abilities: what cannot be tested without one is listed in the log as not run.
type Harness struct {
	// Open returns a new client of the store, always the same store. The suite closes it.
	Open func(t *testing.T) backends.Backend

	// Patience is how long anything may take that the store does by itself, such as an event. 0 is 5 s.
	Patience time.Duration

	// Expire drops one entry behind its owner's back: a lease revoked, a key deleted by hand. May be nil.
	Expire func(t *testing.T, key string, token int64)

	// DeleteAll deletes everything under the key, as an operator would. May be nil.
	DeleteAll func(t *testing.T, key string)

	// SetRecord overwrites the record with any bytes. May be nil.
	SetRecord func(t *testing.T, key string, raw []byte)

	// Foreign puts an entry in the queue that another tool could have made, and returns what removes it. May be nil.
	Foreign func(t *testing.T, key string) (remove func())

	// Clutter puts things under or beside the key that are no entries and have to be ignored. May be nil.
	Clutter func(t *testing.T, key string)

	// Requests counts what the store was asked so far, by anybody, watch notifications included. May be nil.
	Requests func(t *testing.T) int

	// Denied opens a client that the store does not let in, or not write. May be nil.
	Denied func(t *testing.T) backends.Backend

	// Faults are the ways in which the store can be out of reach: stopped, gone, cut off.
	Faults []Fault

	// ExpiresWithin is how long the store takes at most to drop an entry with a TTL of ShortTTL that nobody keeps alive.
	// 0: the store has no expiry.
	ExpiresWithin time.Duration
}

// Fault makes the store unreachable for all clients, and reachable again.
type Fault struct {
	Name  string
	Break func(t *testing.T)
	Heal  func(t *testing.T)
}

// ShortTTL is the TTL of the entries whose expiry is waited for; the others have ten seconds.
const ShortTTL = time.Second

// ability is what a subtest needs beyond the contract's bare minimum.
type ability string

const (
	evicts    ability = "Properties.Evicts" // and with it: tokens known from Enter on, and a record that owes
	cannot    ability = "lack of Properties.Evicts"
	expire    ability = "Harness.Expire"
	deleteAll ability = "Harness.DeleteAll"
	setRecord ability = "Harness.SetRecord"
	foreign   ability = "Harness.Foreign"
	clutter   ability = "Harness.Clutter"
	requests  ability = "Harness.Requests"
	denied    ability = "Harness.Denied"
	faults    ability = "Harness.Faults"
	expiry    ability = "Harness.ExpiresWithin"
)

type subtest struct {
	name  string
	run   func(*suite, *testing.T)
	needs []ability
}

func subtests() []subtest {
	return []subtest{
		{"enter/places", (*suite).enterPlaces, nil},
		{"enter/head is described", (*suite).enterHead, nil},
		{"enter/store has a name", (*suite).enterStore, nil},
		{"enter/bad keys", (*suite).enterBadKeys, nil},
		{"enter/cancelled leaves nothing", (*suite).enterCancelled, nil},
		{"enter/same nonce is one entry", (*suite).enterTwice, []ability{evicts}},
		{"enter/keys do not meet", (*suite).enterKeys, nil},
		{"enter/clutter is ignored", (*suite).enterClutter, []ability{clutter}},
		{"queue/first in first out", (*suite).queueFIFO, []ability{evicts}},
		{"queue/exclusive", (*suite).queueExclusive, nil},
		{"queue/tokens rise", (*suite).queueTokens, nil},
		{"queue/tokens rise after a deletion", (*suite).queueTokensDeleted, []ability{deleteAll, evicts}},
		{"queue/predecessor leaves", (*suite).queuePredecessor, nil},
		{"queue/waiter leaves", (*suite).queueWaiterLeaves, nil},
		{"queue/quick restart", (*suite).queueRestart, nil},
		{"queue/false win", (*suite).queueFalseWin, []ability{expire}},
		{"queue/requests do not grow with waiters", (*suite).queueRequests, []ability{requests, evicts}},
		{"leave/idempotent", (*suite).leaveTwice, nil},
		{"leave/cancelled context", (*suite).leaveCancelled, nil},
		{"leave/after a loss", (*suite).leaveLost, []ability{expire}},
		{"leave/leaves the record alone", (*suite).leaveRecord, nil},
		{"acquire/conditions", (*suite).acquireConditions, nil},
		{"acquire/entry gone", (*suite).acquireGone, []ability{expire}},
		{"acquire/latest beat is read", (*suite).acquireReadsLatest, []ability{evicts}},
		{"beat/conditions", (*suite).beatConditions, nil},
		{"beat/entry gone", (*suite).beatGone, []ability{expire}},
		{"beat/record deleted", (*suite).beatDeleted, []ability{deleteAll}},
		{"beat/record overwritten", (*suite).beatOverwritten, []ability{setRecord}},
		{"record/versions never come back", (*suite).recordVersions, nil},
		{"record/fields survive", (*suite).recordFields, []ability{evicts}},
		{"record/unknown fields survive", (*suite).recordExtra, nil},
		{"record/unreadable", (*suite).recordUnreadable, []ability{setRecord}},
		{"record/later format", (*suite).recordLater, []ability{setRecord}},
		{"release/hands over", (*suite).releaseHandsOver, nil},
		{"release/owing", (*suite).releaseOwing, []ability{evicts}},
		{"release/conditions", (*suite).releaseConditions, nil},
		{"release/idempotent", (*suite).releaseTwice, nil},
		{"release/entry gone", (*suite).releaseGone, []ability{expire}},
		{"evict/takes the term", (*suite).evictTakes, []ability{evicts}},
		{"evict/conditions", (*suite).evictConditions, []ability{evicts}},
		{"evict/entry gone", (*suite).evictGone, []ability{evicts, expire}},
		{"evict/late heartbeat", (*suite).evictLateBeat, []ability{evicts}},
		{"evict/late release", (*suite).evictLateRelease, []ability{evicts}},
		{"remove/dead head", (*suite).removeHead, []ability{evicts}},
		{"remove/conditions", (*suite).removeConditions, []ability{evicts}},
		{"remove/entry gone", (*suite).removeGone, []ability{evicts, expire}},
		{"evict/unsupported", (*suite).evictUnsupported, []ability{cannot}},
		{"foreign/waits and is spared", (*suite).foreignWaits, []ability{foreign, evicts}},
		{"watch/present and later versions", (*suite).watchVersions, []ability{evicts}},
		{"watch/absent record", (*suite).watchAbsent, []ability{evicts}},
		{"watch/own entry gone", (*suite).watchGone, []ability{expire}},
		{"handback/after the start", (*suite).handbackBegun, nil},
		{"handback/of one that wakes up", (*suite).handbackAlone, nil},
		{"handback/before the start", (*suite).handbackOwing, []ability{evicts}},
		{"handback/never acquired", (*suite).handbackNotAcquired, nil},
		{"handback/still waiting", (*suite).handbackWaiting, []ability{evicts}},
		{"handback/spares a successor", (*suite).handbackSuccessor, nil},
		{"handback/idempotent", (*suite).handbackTwice, nil},
		{"context/ends an attempt", (*suite).contextEnds, nil},
		{"concurrent calls", (*suite).concurrentCalls, nil},
		{"denied", (*suite).denied, []ability{denied}},
		{"unreachable", (*suite).unreachable, []ability{faults}},
		{"expiry", (*suite).expiry, []ability{expiry}},
	}
}

// suite is one run against one store.
type suite struct {
	h     Harness
	props backends.Properties
}

// Run tests a store. Each subtest uses keys of its own, so the store need not be empty.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.Patience == 0 {
		h.Patience = 5 * time.Second
	}
	s := &suite{h: h}
	s.props = s.client(t).Properties()
	has := map[ability]bool{
		evicts: s.props.Evicts, cannot: !s.props.Evicts, expire: h.Expire != nil, deleteAll: h.DeleteAll != nil, setRecord: h.SetRecord != nil,
		foreign: h.Foreign != nil, clutter: h.Clutter != nil, requests: h.Requests != nil, denied: h.Denied != nil,
		faults: len(h.Faults) > 0, expiry: h.ExpiresWithin > 0,
	}
next:
	for _, st := range subtests() {
		for _, need := range st.needs {
			if !has[need] {
				t.Logf("not run, the store has no %s: %s", need, st.name)
				continue next
			}
		}
		t.Run(st.name, func(t *testing.T) { st.run(s, t) })
	}
}
