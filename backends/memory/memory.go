// Package memory is a store in the memory of one process: what the election is simulated against, and a model of what
// a driver has to do, without a network in the way.
//
// It is linearizable: every operation takes effect at one instant, inside the call. Entries and records share one
// revision counter, as in etcd: an entry's token is the revision that created it, a record's version the revision that
// wrote it last. It never fails by itself; tests break it through the methods of Store, and by wrapping what it returns.
//
// It uses mutexes, channels and the time package only, so it works inside a testing/synctest bubble. Its goroutines end
// with Leave or Close. What it does not promise: to survive the process, or to be of use to anybody but tests.
package memory

import (
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// Store is one coordination service with any number of clients. All methods may be called concurrently.
type Store struct {
	// Name is what Entry.Store returns. Set it before the first Open.
	Name string

	// Lease says how long an entry with this T lives on after its last Keep. nil: for ever. Set it before the first Open.
	Lease func(ttl time.Duration) time.Duration

	// Deliver takes a notification of one watch to its receiver, by calling send, once, now or later, or never: a watch
	// that lags or misses. It is called in the order of the events, with the store locked: it must neither block nor call
	// the store. nil delivers at once. Set it before the first Open.
	Deliver func(w Watch, send func())

	mu       sync.Mutex
	rev      int64
	requests int
	down     bool
	keys     map[string]*queue
}

// Watch names one stream of notifications. The streams of one entry may lag each other.
type Watch struct {
	Key    string
	Token  int64 // of the watching entry
	Stream Stream
}

// Stream is what a watch is on.
type Stream int

// The streams.
const (
	Queue  Stream = iota + 1 // the own entry and its predecessor
	Record                   // the record
)

// Info describes an entry for tests.
type Info struct {
	Name      string
	Token     int64
	Foreign   bool
	Candidate backends.Candidate // zero for a foreign entry
	First     time.Time          // since when it is the head; zero if it is not
}

// NewStore makes an empty store.
func NewStore() *Store {
	return &Store{Name: "memory", keys: make(map[string]*queue)}
}

// Open returns a client of the store. Closing it frees what its entries hold in this process and leaves the entries
// in the store, as if the client had crashed.
func (s *Store) Open() backends.Backend { return &client{store: s} }

// OpenDenied returns a client that has no permission to do anything.
func (s *Store) OpenDenied() backends.Backend { return &client{store: s, denied: true} }

// SetDown makes every call fail with ErrUnavailable and without effect, until it is set back. Watches stay.
func (s *Store) SetDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// Requests counts the calls of all clients and the notifications of all watches so far.
func (s *Store) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Entries returns the queue of a key, the head first.
func (s *Store) Entries(key string) []Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Info
	for _, sl := range s.queue(key).slots {
		all = append(all, Info{sl.name, sl.token, sl.foreign, sl.candidate, sl.first})
	}
	return all
}

// Record returns the record of a key as View would: nil and "" if absent, an error if it is unreadable.
func (s *Store) Record(key string) (*backends.Record, backends.Version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.queue(key).cell
	return clone(c.record), c.name(), c.broken
}

// Expire drops the entry with this token at once, as a store does that breaks its own lease rules. It reports whether
// there was one.
func (s *Store) Expire(token int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.keys {
		for _, sl := range q.slots {
			if sl.token == token {
				s.drop(q, sl, nil)
				return true
			}
		}
	}
	return false
}

// DropAll deletes the record and all entries of a key: an operator's work.
func (s *Store) DropAll(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue(key)
	for len(q.slots) > 0 {
		s.drop(q, q.slots[len(q.slots)-1], nil)
	}
	s.rev++
	q.cell = cell{}
	s.tellRecord(q)
}

// SetRecord overwrites the record of a key with these bytes, whatever they are; nil deletes it.
func (s *Store) SetRecord(key string, raw []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue(key)
	s.rev++
	if q.cell = (cell{}); raw != nil {
		q.cell.version = s.rev
		q.cell.record, q.cell.broken = backends.ParseRecord(raw)
	}
	s.tellRecord(q)
}

// AddForeign puts an entry at the end of the queue that is not leaderrun's, and returns its token.
func (s *Store) AddForeign(key string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue(key)
	sl := s.enqueue(q)
	sl.foreign = true
	return sl.token
}

// RemoveForeign removes all foreign entries of a key.
func (s *Store) RemoveForeign(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue(key)
	for i := len(q.slots) - 1; i >= 0; i-- {
		if q.slots[i].foreign {
			s.drop(q, q.slots[i], nil)
		}
	}
}
