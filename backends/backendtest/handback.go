package backendtest

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// handback is what the guard does, from a client of its own.
func (s *suite) handback(t *testing.T, of *candidate, r backends.Record) error {
	t.Helper()
	ctx, cancel := s.attempt(t)
	defer cancel()
	return s.client(t).Handback(ctx, of.Crash(), r)
}

func (s *suite) handbackBegun(t *testing.T) {
	key := newKey()
	leader, next := s.leader(t, key, "leader"), s.enter(t, key, "next")
	next.view()
	leader.must("Beat", leader.beat(leader.record(), leader.version))
	leader.must("Handback", s.handback(t, leader, leader.released()))
	next.await(backends.Changed)
	v := next.awaitHead()
	if v.Record == nil || !v.Record.Released || v.Record.Token != leader.token {
		t.Fatalf("record handed back = %+v, want it released by token %d", v.Record, leader.token)
	}
	leader.refused("Beat", leader.beat(leader.record(), leader.version), backends.ErrLost)
	next.lead()
	leader.refused("Beat", leader.beat(leader.record(), next.version), backends.ErrLost)
}

// A leaderrun that was only stopped wakes up after its guard has handed the term back, and nobody waits: its beat is a
// loss, and takes nothing back.
func (s *suite) handbackAlone(t *testing.T) {
	key := newKey()
	leader := s.leader(t, key, "leader")
	version := leader.version
	leader.must("Handback", s.handback(t, leader, leader.released()))
	leader.refused("Beat", leader.beat(leader.record(), version), backends.ErrLost)
	if v := leader.view(); v.Own {
		t.Fatalf("View of what was handed back = %+v, want Own false", v)
	}
	leader.refused("Beat", leader.beat(leader.record(), version), backends.ErrLost)
	s.leader(t, key, "next")
}

func (s *suite) handbackOwing(t *testing.T) {
	key := newKey()
	leader, next := s.leader(t, key, "leader"), s.enter(t, key, "next")
	r := leader.record()
	r.Owe = 3456 * time.Millisecond
	leader.must("Handback", s.handback(t, leader, r))
	if v := next.awaitHead(); v.Record == nil || v.Record.Released || v.Record.Owe != r.Owe || v.Record.Token != leader.token {
		t.Fatalf("record handed back = %+v, want owe %v and not released", v.Record, r.Owe)
	}
}

func (s *suite) handbackNotAcquired(t *testing.T) {
	key := newKey()
	former := s.leader(t, key, "former")
	former.must("Release", former.release(former.released(), former.version))
	head, next := s.enter(t, key, "head"), s.enter(t, key, "next")
	before := head.awaitHead().Version
	next.view()
	head.must("Handback", s.handback(t, head, head.record()))
	next.await(backends.Changed)
	if v := next.awaitHead(); v.Version != before || v.Record == nil || v.Record.Token != former.token {
		t.Fatalf("record = %+v with version %q, want %q of token %d", v.Record, v.Version, before, former.token)
	}
}

func (s *suite) handbackWaiting(t *testing.T) {
	key := newKey()
	leader := s.leader(t, key, "leader")
	waiter, behind := s.enter(t, key, "waiter"), s.enter(t, key, "behind")
	waiter.view()
	behind.view()
	waiter.must("Handback", s.handback(t, waiter, waiter.released()))
	behind.await(backends.Changed)
	if v := behind.view(); v.Place != 1 {
		t.Fatalf("place behind one that was handed back = %d, want 1", v.Place)
	}
	behind.sees(leader.version, leader.token)
	leader.must("Beat", leader.beat(leader.record(), leader.version))
}

func (s *suite) handbackSuccessor(t *testing.T) {
	key := newKey()
	leader, next := s.leader(t, key, "leader"), s.enter(t, key, "next")
	next.view()
	crash := leader.Crash()
	leader.must("Handback", s.handback(t, leader, leader.released()))
	next.lead()
	b := s.client(t)
	for range 2 {
		ctx, cancel := s.attempt(t)
		if err := b.Handback(ctx, crash, leader.released()); err != nil {
			t.Errorf("a late Handback = %v, want nil", err)
		}
		cancel()
		next.sees(next.version, next.token)
		next.must("Beat", next.beat(next.record(), next.version))
	}
	third := s.enter(t, key, "third")
	if v := third.view(); v.Place != 1 {
		t.Fatalf("place behind the successor = %d, want 1", v.Place)
	}
}

func (s *suite) handbackTwice(t *testing.T) {
	key := newKey()
	leader := s.leader(t, key, "leader")
	leader.must("Handback", s.handback(t, leader, leader.released()))
	leader.must("Handback again", s.handback(t, leader, leader.released()))
	version := s.peek(t, key)
	leader.must("Handback again", s.handback(t, leader, leader.released()))

	released := s.leader(t, key, "released")
	crash := released.Crash()
	released.must("Release", released.release(released.released(), released.version))
	before := s.peek(t, key)
	if before == version {
		t.Fatalf("version %q after another term", before)
	}
	ctx, cancel := s.attempt(t)
	defer cancel()
	released.must("Handback after Release", s.client(t).Handback(ctx, crash, released.released()))
	if after := s.peek(t, key); after != before {
		t.Fatalf("version %q after a Handback of nothing, want %q", after, before)
	}
}

// peek reads the version of a record that nobody holds.
func (s *suite) peek(t *testing.T, key string) backends.Version {
	t.Helper()
	c := s.enter(t, key, "peek")
	v := c.awaitHead()
	c.leave()
	return v.Version
}
