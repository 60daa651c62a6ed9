package backendtest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
)

func (s *suite) enterPlaces(t *testing.T) {
	key := newKey()
	first, second, third := s.enter(t, key, "first"), s.enter(t, key, "second"), s.enter(t, key, "third")
	if v := first.awaitHead(); v.Head != nil || v.Foreign || v.Record != nil || v.Version != "" || v.Unreadable != nil {
		t.Fatalf("View of the first of a new key = %+v", v)
	}
	for want, c := range map[int]*candidate{1: second, 2: third} {
		v := c.view()
		if !v.Own || v.Place < 1 || v.Foreign {
			t.Fatalf("View of %s = %+v, want own entry behind others", c.who.ID, v)
		}
		if s.props.Evicts && v.Place != want {
			t.Fatalf("place of %s = %d, want %d", c.who.ID, v.Place, want)
		}
	}
}

func (s *suite) enterHead(t *testing.T) {
	key := newKey()
	leader, waiter := s.leader(t, key, "leader"), s.enter(t, key, "waiter")
	v := waiter.view()
	if v.Head == nil {
		t.Fatalf("Head = nil, want the leader")
	}
	got, want := *v.Head, backends.Head{Token: leader.token, TTL: ttl, ID: "leader", Host: "host-of-leader"}
	if got.Name = ""; got != want {
		t.Fatalf("Head = %+v, want %+v and a name", got, want)
	}
}

func (s *suite) enterStore(t *testing.T) {
	a, b := s.enter(t, newKey(), "a"), s.enter(t, newKey(), "b")
	if a.Store() == "" || a.Store() != b.Store() {
		t.Fatalf("Store = %q and %q, want the same name", a.Store(), b.Store())
	}
}

func (s *suite) enterBadKeys(t *testing.T) {
	b := s.client(t)
	for _, key := range []string{
		"", "/", "jobs", "/jobs/", "//jobs", "/jobs//x", "/../jobs", "/jobs/..", "/.", "/a b", "/a\n", "/a\x00b", "/é",
		"/" + strings.Repeat("x", 5000),
	} {
		ctx, cancel := s.attempt(t)
		_, err := b.Enter(ctx, who(key, "a"))
		cancel()
		if !errors.Is(err, backends.ErrBadKey) {
			t.Errorf("Enter with key %.20q = %v, want ErrBadKey", key, err)
		}
	}
	// The longest key there is has to work everywhere.
	long := newKey() + "/"
	long += strings.Repeat("k", backends.MaxKey-len(long))
	s.leader(t, long, "long")
}

func (s *suite) enterCancelled(t *testing.T) {
	key := newKey()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.client(t).Enter(ctx, who(key, "cancelled")); !errors.Is(err, backends.ErrUnavailable) && !errors.Is(err, context.Canceled) {
		t.Fatalf("Enter with a cancelled context = %v, want ErrUnavailable", err)
	}
	leader := s.leader(t, key, "leader")
	waiter := s.enter(t, key, "waiter")
	waiter.leave()
	leader.must("Release", leader.release(leader.released(), leader.version))
	next := s.enter(t, key, "next")
	next.lead()
	if next.token <= leader.token {
		t.Fatalf("token %d after %d", next.token, leader.token)
	}
}

// A repeated Enter is what follows one whose reply was lost: from the same client or from a new one.
func (s *suite) enterTwice(t *testing.T) {
	for _, other := range []bool{false, true} {
		key := newKey()
		b := s.client(t)
		w := who(key, "twice")
		s.enterAs(t, b, w)
		if other {
			b = s.client(t)
		}
		again := s.enterAs(t, b, w)
		behind := s.enter(t, key, "behind")
		if v := behind.view(); v.Place != 1 {
			t.Fatalf("place behind a repeated Enter = %d, want 1 (another client: %v)", v.Place, other)
		}
		again.lead()
		if v := behind.view(); v.Head == nil || v.Head.Token != again.token {
			t.Fatalf("Head = %+v, want token %d", v.Head, again.token)
		}
		again.leave()
		behind.lead()
	}
}

// Keys that are prefixes of one another, as text or as paths, are strangers.
func (s *suite) enterKeys(t *testing.T) {
	base := newKey()
	var all []*candidate
	for _, key := range []string{base, base + "/b", base + "b", base + "/b/c", base + ".", base + "0", base + "-"} {
		c := s.leader(t, key, "leader-of-"+key[len(base):])
		all = append(all, c)
	}
	for _, c := range all {
		if r := c.sees(c.version, c.token); r.ID != c.who.ID {
			t.Fatalf("record of %s is that of %s", c.who.Key, r.ID)
		}
		c.must("Beat", c.beat(c.record(), c.version))
	}
	for _, c := range all {
		c.sees(c.version, c.token)
		c.must("Release", c.release(c.released(), c.version))
	}
	for _, c := range all {
		again := s.enter(t, c.who.Key, "again")
		if v := again.awaitHead(); v.Record == nil || v.Record.Token != c.token {
			t.Fatalf("record of %s = %+v, want that of token %d", c.who.Key, v.Record, c.token)
		}
	}
}

func (s *suite) enterClutter(t *testing.T) {
	key := newKey()
	s.h.Clutter(t, key)
	leader := s.enter(t, key, "leader")
	if v := leader.view(); v.Place != 0 || v.Foreign {
		t.Fatalf("View among clutter = %+v, want the head", v)
	}
	leader.lead()
	waiter := s.enter(t, key, "waiter")
	s.h.Clutter(t, key)
	if v := waiter.view(); v.Place != 1 || v.Foreign {
		t.Fatalf("View among clutter = %+v, want place 1", v)
	}
	leader.must("Release", leader.release(leader.released(), leader.version))
	waiter.lead()
}
