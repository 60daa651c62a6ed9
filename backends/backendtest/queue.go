package backendtest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// Who waits behind others of its kind has no order in a store that knows only head and not head; such a store's own
// test has to show that its queue is fair.
func (s *suite) queueFIFO(t *testing.T) {
	key := newKey()
	leader := s.leader(t, key, "leader")
	var waiting []*candidate
	for i := range 4 {
		waiting = append(waiting, s.enter(t, key, fmt.Sprint("waiter-", i)))
	}
	for i, c := range waiting {
		leader.must("Release", leader.release(leader.released(), leader.version))
		c.await(backends.Changed)
		c.lead()
		for _, behind := range waiting[i+1:] {
			if v := behind.view(); v.Place == 0 {
				t.Fatalf("%s is at place 0 while %s leads", behind.who.ID, c.who.ID)
			}
		}
		leader = c
	}
}

// Many at once: never two between Acquire and Release, tokens in the order of the terms.
func (s *suite) queueExclusive(t *testing.T) {
	const candidates, terms = 5, 4
	key := newKey()
	var (
		wg      sync.WaitGroup
		holders atomic.Int32
		last    atomic.Int64
		errs    = make(chan error, candidates)
	)
	ctx, cancel := context.WithTimeout(t.Context(), 4*s.h.Patience)
	defer cancel()
	for i := range candidates {
		b := s.client(t)
		wg.Go(func() {
			for range terms {
				if err := term(ctx, b, who(key, fmt.Sprint("candidate-", i)), &holders, &last); err != nil {
					errs <- fmt.Errorf("candidate-%d: %w", i, err)
					cancel()
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
}

// term enters, waits, leads for two beats and releases.
func term(ctx context.Context, b backends.Backend, w backends.Candidate, holders *atomic.Int32, last *atomic.Int64) error {
	w.Nonce = random()
	e, err := b.Enter(ctx, w)
	if err != nil {
		return err
	}
	defer func() { _ = e.Leave(context.WithoutCancel(ctx)) }()
	v, err := e.View(ctx)
	for ; err == nil && v.Place > 0; v, err = e.View(ctx) {
		select {
		case <-e.Events():
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err != nil {
		return err
	}
	r := backends.Record{V: 1, MinV: 1, ID: w.ID, Token: v.Token, TTL: w.TTL, Owe: w.TTL}
	version, err := e.Acquire(ctx, r, v.Version)
	if err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	if n := holders.Add(1); n != 1 {
		return fmt.Errorf("%d hold the key at once", n)
	}
	if before := last.Swap(v.Token); before >= v.Token {
		return fmt.Errorf("token %d after %d", v.Token, before)
	}
	for range 2 {
		r.Beat++
		if version, err = e.Beat(ctx, r, version); err != nil {
			return fmt.Errorf("beat: %w", err)
		}
	}
	holders.Add(-1)
	r.Released, r.Owe = true, 0
	if err := e.Release(ctx, r, version); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

func (s *suite) queueTokens(t *testing.T) {
	key := newKey()
	var last int64
	for i := range 5 {
		c := s.leader(t, key, fmt.Sprint("leader-", i))
		if c.token <= last {
			t.Fatalf("token %d after %d", c.token, last)
		}
		last = c.token
		if i%2 == 0 { // a term that ended without a release counts as well
			c.leave()
			continue
		}
		c.must("Release", c.release(c.released(), c.version))
	}
	if !s.props.Evicts {
		return
	}
	for i := range 3 { // tokens rise with the queue
		c := s.enter(t, key, fmt.Sprint("queued-", i))
		if c.view(); c.token <= last {
			t.Fatalf("token %d behind %d in the queue", c.token, last)
		}
		last = c.token
	}
}

func (s *suite) queueTokensDeleted(t *testing.T) {
	key := newKey()
	var last int64
	for i := range 3 {
		c := s.enter(t, key, fmt.Sprint("leader-", i))
		if v := c.awaitHead(); v.Record != nil || v.Version != "" {
			t.Fatalf("record after a deletion = %+v with version %q, want none", v.Record, v.Version)
		}
		if c.lead(); c.token <= last {
			t.Fatalf("token %d after %d and a deletion", c.token, last)
		}
		last = c.token
		s.h.DeleteAll(t, key)
	}
}

func (s *suite) queuePredecessor(t *testing.T) {
	key := newKey()
	leader, waiter := s.leader(t, key, "leader"), s.enter(t, key, "waiter")
	waiter.view()
	leader.leave()
	waiter.await(backends.Changed)
	waiter.lead()
}

// Who leaves out of the middle of the queue is not waited for, and does not take those behind it along.
func (s *suite) queueWaiterLeaves(t *testing.T) {
	key := newKey()
	leader := s.leader(t, key, "leader")
	waiter, behind := s.enter(t, key, "waiter"), s.enter(t, key, "behind")
	behind.view()
	waiter.leave()
	if s.props.Evicts {
		behind.await(backends.Changed)
		if v := behind.view(); v.Place != 1 {
			t.Fatalf("place behind one that left = %d, want 1", v.Place)
		}
	}
	leader.sees(leader.version, leader.token)
	leader.must("Release", leader.release(leader.released(), leader.version))
	behind.await(backends.Changed)
	behind.lead()
}

// The same candidate, on the same client, comes back at once: a new entry at the end of the queue.
func (s *suite) queueRestart(t *testing.T) {
	key := newKey()
	b := s.client(t)
	first := s.enterAs(t, b, who(key, "same"))
	first.lead()
	waiter := s.enter(t, key, "waiter")
	waiter.view()
	first.must("Release", first.release(first.released(), first.version))
	first.leave()
	again := s.enterAs(t, b, who(key, "same"))
	waiter.lead()
	if v := again.view(); v.Place == 0 {
		t.Fatalf("the one that came back is at place 0 while another leads")
	}
	waiter.must("Release", waiter.release(waiter.released(), waiter.version))
	if again.lead(); again.token <= waiter.token {
		t.Fatalf("token %d after %d", again.token, waiter.token)
	}
}

// The store drops a waiting entry, then its predecessor leaves: its place looks like the first, and is not.
func (s *suite) queueFalseWin(t *testing.T) {
	key := newKey()
	leader := s.leader(t, key, "leader")
	dropped, behind := s.enter(t, key, "dropped"), s.enter(t, key, "behind")
	dropped.view()
	behind.view()
	s.h.Expire(t, key, dropped.token)
	leader.must("Release", leader.release(leader.released(), leader.version))
	v := dropped.view()
	if v.Own {
		t.Fatalf("View of a dropped entry = %+v, want Own false", v)
	}
	dropped.refused("Acquire", dropped.acquire(dropped.record(), v.Version), backends.ErrLost)
	behind.lead()
	dropped.refused("Acquire", dropped.acquire(dropped.record(), behind.version), backends.ErrLost)
	behind.sees(behind.version, behind.token)
}

// A handover and a heartbeat cost the store as much with many waiters as with few.
func (s *suite) queueRequests(t *testing.T) {
	handover := func(waiters int) (cost int) {
		key := newKey()
		leader := s.leader(t, key, "leader")
		next := s.enter(t, key, "next")
		next.view()
		next.Observe(true)
		for i := range waiters {
			s.enter(t, key, fmt.Sprint("waiter-", i)).view()
		}
		before := s.quiet(t)
		for range 5 {
			leader.must("Beat", leader.beat(leader.record(), leader.version))
		}
		leader.must("Release", leader.release(leader.released(), leader.version))
		next.await(backends.Changed)
		v := next.view()
		if v.Place != 0 {
			t.Fatalf("place = %d, want 0", v.Place)
		}
		next.must("Acquire", next.acquire(next.record(), v.Version))
		return s.quiet(t) - before
	}
	const slack = 3 // a long poll that happens to end
	few, many := handover(3), handover(30)
	t.Logf("five heartbeats and a handover: %d requests with 3 waiters, %d with 30", few, many)
	if many > few+slack {
		t.Fatalf("%d requests with 30 waiters, %d with 3", many, few)
	}
}

// quiet waits until the count of requests stands still, and returns it.
func (s *suite) quiet(t *testing.T) int {
	t.Helper()
	n := s.h.Requests(t)
	since := time.Now()
	for deadline := time.Now().Add(s.h.Patience); time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
		if now := s.h.Requests(t); now != n {
			n, since = now, time.Now()
		}
		if time.Since(since) > 100*time.Millisecond {
			return n
		}
	}
	t.Fatalf("the store is asked all the time: %d requests", n)
	return 0
}

func (s *suite) leaveTwice(t *testing.T) {
	key := newKey()
	leader, waiter := s.leader(t, key, "leader"), s.enter(t, key, "waiter")
	for range 3 {
		leader.leave()
	}
	leader.refused("Beat after Leave", leader.beat(leader.record(), leader.version), backends.ErrLost)
	waiter.lead()
	leader.leave()
	waiter.must("Beat", waiter.beat(waiter.record(), waiter.version))
}

func (s *suite) leaveCancelled(t *testing.T) {
	key := newKey()
	leader, waiter := s.leader(t, key, "leader"), s.enter(t, key, "waiter")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	leader.must("Leave with a cancelled context", leader.Leave(ctx))
	waiter.lead()
	waiter.must("Leave with a cancelled context", waiter.Leave(ctx))
	s.leader(t, key, "last")
}

func (s *suite) leaveLost(t *testing.T) {
	key := newKey()
	leader, waiter := s.leader(t, key, "leader"), s.enter(t, key, "waiter")
	s.h.Expire(t, key, leader.token)
	waiter.lead()
	leader.refused("Beat", leader.beat(leader.record(), leader.version), backends.ErrLost)
	leader.leave()
	waiter.sees(waiter.version, waiter.token)
	waiter.must("Beat", waiter.beat(waiter.record(), waiter.version))
}

func (s *suite) leaveRecord(t *testing.T) {
	key := newKey()
	leader, waiter := s.leader(t, key, "leader"), s.enter(t, key, "waiter")
	waiter.leave()
	leader.sees(leader.version, leader.token)
	leader.leave()
	next := s.enter(t, key, "next")
	if v := next.awaitHead(); v.Version != leader.version || v.Record == nil || v.Record.Token != leader.token {
		t.Fatalf("record after Leave = %+v with version %q, want version %q", v.Record, v.Version, leader.version)
	}
}
