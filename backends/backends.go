// Package backends is the contract between the election and a coordination store.
//
// A store is a thin driver: it keeps a queue of entries and one record per key, and offers the few conditional writes
// of the election protocol, each as one atomic operation. It has no retry loop, no schedule, no logger and no policy;
// those exist once, in package election. Each driver must pass the suite in backendtest.
//
// What a driver promises: its writes are linearizable and happen only under the condition that is named at each method,
// and View is the strongest read that the store has. What it does not promise: that an entry lives as long as its owner
// (a store may drop it too early, or keep it for ever), that a watch is timely or complete, or that a call which failed
// with ErrUnavailable had no effect: it may still take effect, later. The election is safe without any of these.
//
// The words: an entry is a candidate's place in the queue of a key; the head is the first entry; the record is the one
// document per key that outlives entries and says what the present or last leader is owed (see Record).
package backends

import (
	"context"
	"os"
	"time"
)

// Backend is one store, opened. Its methods may be called concurrently.
type Backend interface {
	Properties() Properties

	// Enter puts a candidate at the end of the queue of its key.
	//
	// MUST be a new entry (and a new session or lease) every time, except that a call which repeats the Nonce of one
	// that failed with ErrUnavailable must not leave two entries behind: it finds the first one, or removes it.
	Enter(ctx context.Context, c Candidate) (Entry, error)

	// Handback is Entry.Release done by another process, with what Entry.Crash gave: the guard calls it after its
	// leaderrun died, once the tree is gone. Conditions and effect are those of Release for the record as it is then:
	// the entry exists and the record carries its token, or, when it never acquired, just the removal of the entry.
	// MUST NOT touch what belongs to another entry. Idempotent: nil when there is nothing to hand back (any more).
	Handback(ctx context.Context, c Crash, r Record) error

	// Close frees connections. It withdraws nothing.
	Close() error
}

// Properties are the differences between stores that the election has to know.
type Properties struct {
	// Evicts says that the store has Evict and Remove. Without it (the file store, where the kernel frees the lock of a
	// dead process) nobody observes the leader and nobody is ever evicted.
	Evicts bool
}

// Candidate is who enters.
type Candidate struct {
	Key     string        // as CheckKey allows it
	ID      string        // what a person sees; need not be unique
	Host    string        // host name
	PID     int           // of leaderrun
	Boot    string        // boot id of the host
	Nonce   string        // random, unique to this entry: at least 16 characters of [0-9a-f]
	TTL     time.Duration // T
	Command string        // base name of the command
}

// Entry is a candidate's place in the queue. Methods may be called concurrently, each with a ctx that bounds one
// attempt. MUST return soon after ctx is done.
//
// Every method that writes returns nil (it took effect), ErrLost (definite: the own entry is gone, or the record is
// owned by another token), ErrConflict (the own entry is there and the rest of the condition did not hold: look again),
// ErrDenied, or ErrUnavailable (unknown: it may have taken effect, or may still). Wrapped, to be tested with errors.Is.
type Entry interface {
	// Store names the store itself, however it is addressed: the cluster's id, the directory's real path. It goes into
	// the mark by which this host knows the processes of earlier terms of the same key in the same store.
	Store() string

	// Events is the driver's watch. A driver MUST report that the queue before this entry changed (Changed), that the
	// own entry is definitely gone (Gone) and, while Observe(true) is in force, each version of the record that it
	// sees (Seen), starting with the present one. It MUST watch only its predecessor and, while observing, the record:
	// never the whole queue. A watch that broke and may have missed something is a Changed. Use Feed.
	Events() <-chan Event
	Observe(on bool)

	// View reads own entry, queue and record with the strongest read of the store.
	View(ctx context.Context) (View, error)

	// Acquire writes r if the own entry exists and is the head, and the record still has the version seen.
	Acquire(ctx context.Context, r Record, seen Version) (Version, error)

	// Beat writes r if the own entry exists and the record has the version seen (the one that the owner wrote last).
	Beat(ctx context.Context, r Record, seen Version) (Version, error)

	// Keep keeps the entry's session or lease alive; it proves nothing. KeepEvery says how often it wants to be called,
	// 0 for never.
	Keep(ctx context.Context) error
	KeepEvery() time.Duration

	// Evict removes the head and writes r, if the head exists, the record has the version seen, and the own entry exists
	// and is next. The election calls it only for a head whose token the record carries.
	Evict(ctx context.Context, head Head, r Record, seen Version) (Version, error)

	// Remove removes a head that never acquired, if the head exists, the record has the version seen, and the own
	// entry exists.
	Remove(ctx context.Context, head Head, seen Version) error

	// Release writes r and removes the own entry, in one atomic operation, if the own entry exists and the record has
	// the version seen. A lease or session is given up behind it, as far as ctx allows; failing in that is no error.
	// Repeating one that took effect is nil as long as nobody has written the record since: its reply may have been lost.
	Release(ctx context.Context, r Record, seen Version) error

	// Leave withdraws from the queue without writing the record, and ends the watch; Events is not closed. Idempotent,
	// works after ErrLost, and frees all of the entry's goroutines whatever it returns.
	Leave(ctx context.Context) error

	// Crash is what another process needs to give this entry back. Valid from Enter on, until Leave; taken before the
	// entry was the head, it may only be good for withdrawing it (the file store).
	Crash() Crash
}

// View is what one strongest read showed.
type View struct {
	Own   bool  // the own entry exists and is still ours
	Place int   // entries before ours: 0 is the head
	Token int64 // fencing token of the own entry: its creation order; 0 where it is known only at the head (file store)

	Head *Head // the head, unless it is ours

	// Foreign says that an entry before ours is not of leaderrun (etcdctl elect, consul lock, kazoo, ...).
	Foreign bool

	Record     *Record // nil: absent or unreadable
	Version    Version // "": absent
	Unreadable error   // the record is there and is no Record; its Version is valid
}

// Head describes the first entry of a queue.
type Head struct {
	Name    string        // the store's own name for the entry
	Token   int64         // its fencing token
	TTL     time.Duration // its T, 0 if unknown
	ID      string        // for people
	Host    string
	Foreign bool // not an entry of leaderrun
}

// Version is the store's own version of a record: etcd's ModRevision, Consul's ModifyIndex, ZooKeeper's mzxid. Only
// equality means anything. A version MUST never come back once the record has another one. "" means absent.
type Version string

// Event is what a watch saw. The election stamps it when it receives it, which can only be later than it happened.
type Event struct {
	Kind EventKind

	// With Seen: the record (nil if it is absent or unreadable) and its version.
	Record  *Record
	Version Version
}

// EventKind is the kind of an Event.
type EventKind int

// The kinds of events.
const (
	Changed EventKind = iota + 1 // the queue before the own entry changed, or may have: look
	Seen                         // the record was seen
	Gone                         // the own entry is definitely gone
)

func (k EventKind) String() string {
	switch k {
	case Changed:
		return "changed"
	case Seen:
		return "seen"
	case Gone:
		return "gone"
	}
	return "unknown"
}

// Crash is what the guard is given, in memory, to hand back the term of a leaderrun that died. Data may hold secrets.
// Files are open descriptors that the guard must hold as well (the file store's lock); they stay the entry's own.
type Crash struct {
	Data  []byte
	Files []*os.File
}
