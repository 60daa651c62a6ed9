package memory

import (
	"strconv"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// queue is all that the store has under one key.
type queue struct {
	key   string
	slots []*slot // in order of creation
	cell  cell
}

// slot is an entry as the store has it, with the clients that hold it.
type slot struct {
	name      string
	token     int64
	foreign   bool
	candidate backends.Candidate
	first     time.Time // since when it is the head
	handles   []*entry
	expiry    *time.Timer // nil: never expires
}

// cell is the record as the store has it. Version 0: absent.
type cell struct {
	version int64
	record  *backends.Record // nil: absent or unreadable
	broken  error            // why it is unreadable
}

// The rest is called with s.mu held.

func (s *Store) queue(key string) *queue {
	q := s.keys[key]
	if q == nil {
		q = &queue{key: key}
		s.keys[key] = q
	}
	return q
}

func (s *Store) enqueue(q *queue) *slot {
	s.rev++
	sl := &slot{name: strconv.FormatInt(s.rev, 16), token: s.rev}
	q.slots = append(q.slots, sl)
	q.crown()
	return sl
}

// drop removes an entry and tells its holders (but for the one that asked for it) and its successor.
func (s *Store) drop(q *queue, sl *slot, by *entry) {
	i := q.place(sl)
	if i < 0 {
		return
	}
	s.rev++
	q.slots = append(q.slots[:i], q.slots[i+1:]...)
	q.crown()
	if sl.expiry != nil {
		sl.expiry.Stop()
	}
	for _, h := range sl.handles {
		if h != by {
			s.send(h, Queue, backends.Event{Kind: backends.Gone})
		}
	}
	if i < len(q.slots) {
		for _, h := range q.slots[i].handles {
			s.send(h, Queue, backends.Event{Kind: backends.Changed})
		}
	}
}

func (q *queue) crown() {
	if len(q.slots) > 0 && q.slots[0].first.IsZero() {
		q.slots[0].first = time.Now()
	}
}

// place returns how many entries are before sl, or -1 if it is gone.
func (q *queue) place(sl *slot) int {
	for i, other := range q.slots {
		if other == sl {
			return i
		}
	}
	return -1
}

// write makes r the record. A record that could not be read back is kept as unreadable, as any store would.
func (s *Store) write(q *queue, r backends.Record) backends.Version {
	s.rev++
	q.cell = cell{version: s.rev}
	q.cell.record, q.cell.broken = asStored(r)
	s.tellRecord(q)
	return q.cell.name()
}

func (s *Store) tellRecord(q *queue) {
	for _, sl := range q.slots {
		for _, h := range sl.handles {
			if h.observing {
				s.send(h, Record, q.seen())
			}
		}
	}
}

func (q *queue) seen() backends.Event {
	return backends.Event{Kind: backends.Seen, Record: clone(q.cell.record), Version: q.cell.name()}
}

// send passes an event through Deliver to one watch. A notification of a watch that was ended meanwhile is dropped,
// so that a late one never follows those of the watch that came after it.
func (s *Store) send(h *entry, stream Stream, e backends.Event) {
	s.requests++
	if s.Deliver == nil {
		h.feed.Put(e)
		return
	}
	generation := h.generation.Load()
	s.Deliver(Watch{h.queue.key, h.slot.token, stream}, func() {
		if stream == Record && h.generation.Load() != generation {
			return
		}
		h.feed.Put(e)
	})
}

func (c cell) name() backends.Version {
	if c.version == 0 {
		return ""
	}
	return backends.Version(strconv.FormatInt(c.version, 10))
}
