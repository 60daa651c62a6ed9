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
