package backendtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
	crash := leader.Crash()
	leader.must("Handback", s.handback(t, leader, leader.released()))
	leader.must("Handback again", s.handback(t, leader, leader.released()))
	version := s.peek(t, key)
	leader.must("Handback again", s.handback(t, leader, leader.released()))

	released := s.leader(t, key, "released")
	crash = released.Crash()
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

func (s *suite) contextEnds(t *testing.T) {
	key := newKey()
	leader := s.leader(t, key, "leader")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, backends.ErrUnavailable) {
			t.Errorf("%s with a cancelled context = %v, want ErrUnavailable", what, err)
		}
	}
	_, err := leader.View(ctx)
	check("View", err)
	_, err = leader.Beat(ctx, leader.record(), leader.version)
	check("Beat", err)
	_, err = leader.Acquire(ctx, leader.record(), leader.version)
	check("Acquire", err)
	check("Release", leader.Release(ctx, leader.released(), leader.version))
	check("Handback", s.client(t).Handback(ctx, leader.Crash(), leader.released()))
	leader.sees(leader.version, leader.token)
	leader.must("Beat", leader.beat(leader.record(), leader.version))
}

func (s *suite) concurrentCalls(t *testing.T) {
	key := newKey()
	leader, next := s.leader(t, key, "leader"), s.enter(t, key, "next")
	ctx, cancel := s.attempt(t)
	defer cancel()
	var wg sync.WaitGroup
	errs := make(chan error, 100)
	for _, c := range []*candidate{leader, next} {
		wg.Go(func() {
			for range 10 {
				if v, err := c.View(ctx); err != nil || !v.Own {
					errs <- fmt.Errorf("%s: View = %+v, %v", c.who.ID, v, err)
				}
				if err := c.Keep(ctx); err != nil {
					errs <- fmt.Errorf("%s: Keep = %v", c.who.ID, err)
				}
				_, _, _ = c.Crash(), c.Store(), c.KeepEvery()
			}
		})
		wg.Go(func() {
			for i := range 10 {
				c.Observe(i%2 == 0)
			}
		})
	}
	for range 10 {
		leader.must("Beat", leader.beat(leader.record(), leader.version))
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
}

func (s *suite) denied(t *testing.T) {
	b := s.h.Denied(t)
	defer b.Close()
	ctx, cancel := s.attempt(t)
	defer cancel()
	if e, err := b.Enter(ctx, who(newKey(), "stranger")); !errors.Is(err, backends.ErrDenied) {
		if err == nil {
			_ = e.Leave(ctx)
		}
		t.Fatalf("Enter = %v, want ErrDenied", err)
	}
}

// unreachable: every call ends with its context and decides nothing, and afterwards all goes on.
func (s *suite) unreachable(t *testing.T) {
	for _, f := range s.h.Faults {
		t.Run(f.Name, func(t *testing.T) {
			key := newKey()
			leader, leaving := s.leader(t, key, "leader"), s.enter(t, key, "leaving")
			b, w := s.client(t), who(key, "entering")
			f.Break(t)
			healed := false
			defer func() {
				if !healed {
					f.Heal(t)
				}
			}()
			s.unavailable(t, "Beat", func(ctx context.Context) error {
				_, err := leader.Beat(ctx, leader.record(), leader.version)
				return err
			})
			s.unavailable(t, "View", func(ctx context.Context) error { _, err := leader.View(ctx); return err })
			s.unavailable(t, "Enter", func(ctx context.Context) error { _, err := b.Enter(ctx, w); return err })
			s.bounded(t, "Leave", func(ctx context.Context) { _ = leaving.Leave(ctx) })
			f.Heal(t)
			healed = true
			s.eventually(t, leader)
			leaving.leave()
			entering := s.enterRetry(t, b, w)
			behind := s.enter(t, key, "behind")
			leader.must("Release", leader.release(leader.released(), leader.version))
			entering.lead()
			entering.must("Release", entering.release(entering.released(), entering.version))
			behind.lead()
		})
	}
}

const attemptTime = 500 * time.Millisecond

// bounded fails when call does not return soon after its context is done.
func (s *suite) bounded(t *testing.T, what string, call func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), attemptTime)
	defer cancel()
	begin := time.Now()
	call(ctx)
	if took := time.Since(begin); took > attemptTime+2*time.Second {
		t.Errorf("%s took %v, want no more than its context of %v", what, took, attemptTime)
	}
}

func (s *suite) unavailable(t *testing.T, what string, call func(context.Context) error) {
	t.Helper()
	s.bounded(t, what, func(ctx context.Context) {
		if err := call(ctx); !errors.Is(err, backends.ErrUnavailable) {
			t.Errorf("%s of a store out of reach = %v, want ErrUnavailable", what, err)
		}
	})
}

// eventually beats until the store answers again, as the election would: look, then write over what is ours.
func (s *suite) eventually(t *testing.T, c *candidate) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(4 * s.h.Patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), attemptTime)
		var v backends.View
		if v, err = c.View(ctx); err == nil {
			c.version, err = c.Beat(ctx, c.record(), v.Version)
		}
		cancel()
		if err == nil {
			return
		}
		if !errors.Is(err, backends.ErrUnavailable) && !errors.Is(err, backends.ErrConflict) {
			break
		}
	}
	t.Fatalf("after the store came back: %v", err)
}

func (s *suite) enterRetry(t *testing.T, b backends.Backend, w backends.Candidate) *candidate {
	t.Helper()
	for deadline := time.Now().Add(4 * s.h.Patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), attemptTime)
		e, err := b.Enter(ctx, w)
		cancel()
		if err == nil {
			c := &candidate{Entry: e, t: t, s: s, who: w}
			t.Cleanup(func() { _ = e.Leave(context.Background()) })
			return c
		}
		if !errors.Is(err, backends.ErrUnavailable) {
			t.Fatalf("Enter after the store came back = %v", err)
		}
	}
	t.Fatalf("Enter does not succeed after the store came back")
	return nil
}

// expiry: an entry lives while it is kept, and goes when it is not.
func (s *suite) expiry(t *testing.T) {
	key := newKey()
	w := who(key, "kept")
	w.TTL = ShortTTL
	kept, next := s.enterAs(t, s.client(t), w), s.enter(t, key, "next")
	every := kept.KeepEvery()
	if every <= 0 {
		t.Fatalf("KeepEvery = %v in a store that expires entries", every)
	}
	kept.lead()
	for end := time.Now().Add(s.h.ExpiresWithin + every); time.Now().Before(end); time.Sleep(every) {
		kept.must("Keep", s.keep(t, kept))
		next.must("Keep", s.keep(t, next))
	}
	kept.must("Beat of one that was kept", kept.beat(kept.record(), kept.version))
	tick := time.NewTicker(min(every, next.KeepEvery()))
	defer tick.Stop()
	for deadline := time.Now().Add(s.h.ExpiresWithin + s.h.Patience); time.Now().Before(deadline); <-tick.C {
		next.must("Keep", s.keep(t, next))
		if v := next.view(); v.Place == 0 {
			kept.refused("Beat of one that was not kept", kept.beat(kept.record(), kept.version), backends.ErrLost)
			next.await(backends.Changed)
			next.lead()
			return
		}
	}
	t.Fatalf("an entry that nobody keeps is still there after %v", s.h.ExpiresWithin+s.h.Patience)
}
