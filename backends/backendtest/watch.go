package backendtest

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// awaitSeen waits until the watch shows this version, and passes over others.
func (c *candidate) awaitSeen(version backends.Version) backends.Event {
	c.t.Helper()
	deadline := time.Now().Add(c.s.h.Patience)
	for time.Now().Before(deadline) {
		if e := c.await(backends.Seen); e.Version == version {
			return e
		}
	}
	c.t.Fatalf("%s: version %q was not seen", c.who.ID, version)
	return backends.Event{}
}

func (s *suite) watchVersions(t *testing.T) {
	key := newKey()
	leader, next := s.leader(t, key, "leader"), s.enter(t, key, "next")
	next.view()
	for range 3 {
		next.Observe(true)
		if e := next.awaitSeen(leader.version); e.Record == nil || e.Record.Token != leader.token {
			t.Fatalf("the present record is seen as %+v", e.Record)
		}
		for range 3 {
			leader.must("Beat", leader.beat(leader.record(), leader.version))
			if e := next.awaitSeen(leader.version); e.Record == nil || e.Record.Beat != leader.beats {
				t.Fatalf("beat %d is seen as %+v", leader.beats, e.Record)
			}
		}
		next.Observe(false)
		leader.must("Beat", leader.beat(leader.record(), leader.version))
	}
}

func (s *suite) watchAbsent(t *testing.T) {
	key := newKey()
	head, next := s.enter(t, key, "head"), s.enter(t, key, "next")
	next.Observe(true)
	if e := next.awaitSeen(""); e.Record != nil {
		t.Fatalf("an absent record is seen as %+v", e.Record)
	}
	head.lead()
	next.awaitSeen(head.version)
}

func (s *suite) watchGone(t *testing.T) {
	key := newKey()
	leader := s.leader(t, key, "leader")
	next, third := s.enter(t, key, "next"), s.enter(t, key, "third")
	next.view()
	third.view()
	s.h.Expire(t, key, next.token)
	next.await(backends.Gone)
	third.await(backends.Changed)
	s.h.Expire(t, key, leader.token)
	leader.await(backends.Gone)
	third.await(backends.Changed)
	if v := third.view(); v.Place != 0 {
		t.Fatalf("place behind dropped entries = %d, want 0", v.Place)
	}
}
