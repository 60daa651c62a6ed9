package backendtest

import (
	"testing"

	"github.com/leaderrun/leaderrun/backends"
)

// head is the head that c sees.
func (c *candidate) head() (backends.Head, backends.Version) {
	c.t.Helper()
	v := c.view()
	if v.Head == nil {
		c.t.Fatalf("%s: sees no head", c.who.ID)
	}
	return *v.Head, v.Version
}

func (s *suite) evictTakes(t *testing.T) {
	key := newKey()
	b := s.h.Open(t)
	silent := s.enterAs(t, b, who(key, "silent"))
	silent.lead()
	next, third := s.enter(t, key, "next"), s.enter(t, key, "third")
	if err := b.Close(); err != nil { // as if its host had gone
		t.Fatalf("Close = %v", err)
	}
	head, version := next.head()
	if head.Token != silent.token || version != silent.version {
		t.Fatalf("head %+v with version %q, want token %d and %q", head, version, silent.token, silent.version)
	}
	next.must("Evict", next.evict(head, next.record(), version))
	if v := next.view(); !v.Own || v.Place != 0 || v.Head != nil || v.Version != next.version {
		t.Fatalf("View after Evict = %+v, want the head", v)
	}
	if v := third.view(); v.Place != 1 || v.Head == nil || v.Head.Token != next.token {
		t.Fatalf("View of the third after Evict = %+v, want it next", v)
	}
	if next.token <= silent.token {
		t.Fatalf("token %d after %d", next.token, silent.token)
	}
	third.sees(next.version, next.token)
	next.must("Beat", next.beat(next.record(), next.version))
}

func (s *suite) evictConditions(t *testing.T) {
	key := newKey()
	former := s.leader(t, key, "former")
	leader, next, third := s.enter(t, key, "leader"), s.enter(t, key, "next"), s.enter(t, key, "third")
	gone, _ := next.head()
	former.must("Release", former.release(former.released(), former.version))
	leader.lead()
	next.view()
	third.view()
	head, version := next.head()

	third.refused("Evict by one that is not next", third.evict(head, third.record(), version), backends.ErrConflict)
	next.refused("Evict over an earlier version", next.evict(head, next.record(), former.version), backends.ErrConflict)
	next.refused("Evict over an absent record", next.evict(head, next.record(), ""), backends.ErrConflict)
	next.refused("Evict of a head that is gone", next.evict(gone, next.record(), version), backends.ErrConflict)
	if v := leader.view(); !v.Own || v.Version != version {
		t.Fatalf("View of the leader after refused evictions = %+v", v)
	}
	next.must("Evict", next.evict(head, next.record(), version))
	evicted := next.version
	next.refused("a late duplicate of Evict", next.evict(head, next.record(), version), backends.ErrConflict)
	third.refused("Evict of a head that is gone", third.evict(head, third.record(), evicted), backends.ErrConflict)
	third.sees(evicted, next.token)
	leader.await(backends.Gone)
	if v := leader.view(); v.Own {
		t.Fatalf("View of the evicted = %+v, want Own false", v)
	}
	leader.refused("Keep of the evicted", s.keep(t, leader), backends.ErrLost)
}

func (s *suite) evictGone(t *testing.T) {
	key := newKey()
	leader, next := s.leader(t, key, "leader"), s.enter(t, key, "next")
	next.view()
	head, version := next.head()
	s.h.Expire(t, key, next.token)
	next.refused("Evict", next.evict(head, next.record(), version), backends.ErrLost)
	leader.must("Beat", leader.beat(leader.record(), leader.version))
}

// Rule 8, both orders: whichever of heartbeat and eviction is committed first defeats the other.
func (s *suite) evictLateBeat(t *testing.T) {
	key := newKey()
	leader, next := s.leader(t, key, "leader"), s.enter(t, key, "next")
	next.view()
	head, version := next.head()
	leader.must("Beat", leader.beat(leader.record(), leader.version))
	next.refused("Evict after a beat", next.evict(head, next.record(), version), backends.ErrConflict)
	leader.must("Beat", leader.beat(leader.record(), leader.version))

	head, version = next.head()
	next.must("Evict", next.evict(head, next.record(), version))
	leader.refused("Beat after an eviction", leader.beat(leader.record(), version), backends.ErrLost)
	leader.refused("Beat over the evictor's version", leader.beat(leader.record(), next.version), backends.ErrLost)
	next.sees(next.version, next.token)
}

func (s *suite) evictLateRelease(t *testing.T) {
	key := newKey()
	leader, next, third := s.leader(t, key, "leader"), s.enter(t, key, "next"), s.enter(t, key, "third")
	next.view()
	third.view()
	head, version := next.head()
	leader.must("Release", leader.release(leader.released(), leader.version))
	next.refused("Evict after a release", next.evict(head, next.record(), version), backends.ErrConflict)
	next.lead()

	head, version = third.head()
	third.must("Evict", third.evict(head, third.record(), version))
	next.refused("Release after an eviction", next.release(next.released(), version), backends.ErrLost)
	next.refused("Release over the evictor's version", next.release(next.released(), third.version), backends.ErrLost)
	third.sees(third.version, third.token)
}

// Rule 9: a head that never acquired is removed by anybody who waits, and nothing is taken.
func (s *suite) removeHead(t *testing.T) {
	key := newKey()
	former := s.leader(t, key, "former")
	former.must("Release", former.release(former.released(), former.version))
	dead, next, third := s.enter(t, key, "dead"), s.enter(t, key, "next"), s.enter(t, key, "third")
	dead.awaitHead()
	next.view()
	head, version := third.head()
	third.must("Remove", third.remove(head, version))
	next.await(backends.Changed)
	dead.await(backends.Gone)
	if v := next.view(); v.Place != 0 || v.Version != version {
		t.Fatalf("View after Remove = %+v, want the head and version %q", v, version)
	}
	if v := third.view(); v.Place != 1 {
		t.Fatalf("place of the third = %d, want 1", v.Place)
	}
	dead.refused("Acquire by the removed", dead.acquire(dead.record(), version), backends.ErrLost)
	next.lead()
}

func (s *suite) removeConditions(t *testing.T) {
	key := newKey()
	dead, next, third := s.enter(t, key, "dead"), s.enter(t, key, "next"), s.enter(t, key, "third")
	dead.awaitHead()
	next.view()
	head, version := next.head()
	next.refused("Remove over a version that never was", next.remove(head, "4711"), backends.ErrConflict)
	dead.lead() // not so dead
	next.refused("Remove of one that has acquired since", next.remove(head, version), backends.ErrConflict)
	if v := dead.view(); !v.Own || v.Version != dead.version {
		t.Fatalf("View of the head after refused removals = %+v", v)
	}
	dead.leave()
	_, version = third.head()
	next.refused("Remove of one that is gone", next.remove(head, version), backends.ErrConflict)
	if v := next.view(); !v.Own || v.Place != 0 {
		t.Fatalf("View of the next after refused removals = %+v, want the head", v)
	}
	other, version := third.head()
	third.must("Remove", third.remove(other, version))
	third.refused("a late duplicate of Remove", third.remove(other, version), backends.ErrConflict)
	if v := third.view(); !v.Own || v.Place != 0 {
		t.Fatalf("View of the third = %+v, want the head", v)
	}
}

func (s *suite) removeGone(t *testing.T) {
	key := newKey()
	dead, next := s.enter(t, key, "dead"), s.enter(t, key, "next")
	dead.awaitHead()
	next.view()
	head, version := next.head()
	s.h.Expire(t, key, next.token)
	next.refused("Remove", next.remove(head, version), backends.ErrLost)
	dead.lead()
}

func (s *suite) evictUnsupported(t *testing.T) {
	key := newKey()
	leader, next := s.leader(t, key, "leader"), s.enter(t, key, "next")
	head, version := next.head()
	next.token = leader.token + 1
	if err := next.evict(head, next.record(), version); err == nil {
		t.Fatalf("Evict = nil in a store that does not evict")
	}
	if err := next.remove(head, version); err == nil {
		t.Fatalf("Remove = nil in a store that does not evict")
	}
	leader.must("Beat", leader.beat(leader.record(), leader.version))
}

// Rule 20: a foreign entry is waited for and never touched.
func (s *suite) foreignWaits(t *testing.T) {
	key := newKey()
	remove := s.h.Foreign(t, key)
	c := s.enter(t, key, "candidate")
	v := c.view()
	if !v.Own || v.Place != 1 || !v.Foreign || v.Head == nil || !v.Head.Foreign {
		t.Fatalf("View behind a foreign entry = %+v with head %+v", v, v.Head)
	}
	c.refused("Acquire behind a foreign entry", c.acquire(c.record(), v.Version), backends.ErrConflict)
	if err := c.evict(*v.Head, c.record(), v.Version); err == nil {
		t.Fatalf("Evict of a foreign head = nil")
	}
	if err := c.remove(*v.Head, v.Version); err == nil {
		t.Fatalf("Remove of a foreign head = nil")
	}
	remove()
	c.await(backends.Changed)
	if v := c.view(); v.Place != 0 || v.Foreign || v.Head != nil {
		t.Fatalf("View after the foreign entry has gone = %+v, want the head", v)
	}
	c.lead()
	defer s.h.Foreign(t, key)()
	c.must("Beat before a foreign entry", c.beat(c.record(), c.version))
	c.must("Release before a foreign entry", c.release(c.released(), c.version))
	last := s.enter(t, key, "last")
	if v := last.view(); v.Place != 1 || !v.Foreign {
		t.Fatalf("View behind a foreign entry = %+v", v)
	}
}
