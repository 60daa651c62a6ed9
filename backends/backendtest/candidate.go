package backendtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

const ttl = 10 * time.Second

// candidate is an entry with what its election would remember of it.
type candidate struct {
	backends.Entry
	t       *testing.T
	s       *suite
	who     backends.Candidate
	token   int64 // 0 until known
	version backends.Version
	beats   int64
}

// client opens a client for the length of the test.
func (s *suite) client(t *testing.T) backends.Backend {
	t.Helper()
	b := s.h.Open(t)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return b
}

// newKey makes a key that nothing has used.
func newKey() string { return "/backendtest/" + random() }

func random() string {
	var b [10]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func who(key, id string) backends.Candidate {
	return backends.Candidate{
		Key: key, ID: id, Host: "host-of-" + id, PID: 4711, Boot: "boot-of-" + id,
		Nonce: random(), TTL: ttl, Command: "reconcile.sh",
	}
}

// enter puts a candidate with a client of its own into the queue, and withdraws it at the end of the test.
func (s *suite) enter(t *testing.T, key, id string) *candidate {
	t.Helper()
	return s.enterAs(t, s.client(t), who(key, id))
}

func (s *suite) enterAs(t *testing.T, b backends.Backend, w backends.Candidate) *candidate {
	t.Helper()
	ctx, cancel := s.attempt(t)
	defer cancel()
	e, err := b.Enter(ctx, w)
	if err != nil {
		t.Fatalf("%s: Enter = %v", w.ID, err)
	}
	c := &candidate{Entry: e, t: t, s: s, who: w}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.h.Patience)
		defer cancel()
		_ = e.Leave(ctx)
	})
	return c
}

// attempt bounds one call.
func (s *suite) attempt(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), s.h.Patience)
}

// leader enters and acquires.
func (s *suite) leader(t *testing.T, key, id string) *candidate {
	t.Helper()
	c := s.enter(t, key, id)
	c.lead()
	return c
}

func (c *candidate) view() backends.View {
	c.t.Helper()
	ctx, cancel := c.s.attempt(c.t)
	defer cancel()
	v, err := c.View(ctx)
	if err != nil {
		c.t.Fatalf("%s: View = %v", c.who.ID, err)
	}
	if v.Own && v.Token != 0 {
		if c.token != 0 && c.token != v.Token {
			c.t.Fatalf("%s: token %d after %d", c.who.ID, v.Token, c.token)
		}
		c.token = v.Token
	}
	return v
}

// awaitHead waits until the candidate is first, by its events and a look now and then.
func (c *candidate) awaitHead() backends.View {
	c.t.Helper()
	deadline := time.After(c.s.h.Patience)
	for {
		v := c.view()
		if !v.Own {
			c.t.Fatalf("%s: the entry is gone while it waits", c.who.ID)
		}
		if v.Place == 0 {
			return v
		}
		select {
		case <-c.Events():
		case <-time.After(50 * time.Millisecond):
		case <-deadline:
			c.t.Fatalf("%s: still at place %d", c.who.ID, v.Place)
		}
	}
}

// await waits for an event of a kind, and passes over others.
func (c *candidate) await(kind backends.EventKind) backends.Event {
	c.t.Helper()
	deadline := time.After(c.s.h.Patience)
	for {
		select {
		case e := <-c.Events():
			if e.Kind == kind {
				return e
			}
		case <-deadline:
			c.t.Fatalf("%s: no event %v", c.who.ID, kind)
		}
	}
}

// record is what the candidate would write next.
func (c *candidate) record() backends.Record {
	c.beats++
	return backends.Record{
		V: backends.FormatVersion, MinV: backends.FormatVersion,
		ID: c.who.ID, Host: c.who.Host, PID: c.who.PID, Boot: c.who.Boot,
		Token: c.token, TTL: c.who.TTL, Owe: c.who.TTL, Beat: c.beats,
		Since: time.Unix(1_700_000_000, 0).UTC(),
	}
}

func (c *candidate) released() backends.Record {
	r := c.record()
	r.Released, r.Owe = true, 0
	return r
}

// lead waits for the first place and acquires.
func (c *candidate) lead() {
	c.t.Helper()
	v := c.awaitHead()
	c.must("Acquire", c.acquire(c.record(), v.Version))
}

// The writes, keeping the version where they succeed. must and refused judge their errors.

func (c *candidate) acquire(r backends.Record, seen backends.Version) error {
	return c.write(func(ctx context.Context) (backends.Version, error) { return c.Acquire(ctx, r, seen) })
}

func (c *candidate) beat(r backends.Record, seen backends.Version) error {
	return c.write(func(ctx context.Context) (backends.Version, error) { return c.Beat(ctx, r, seen) })
}

func (c *candidate) evict(head backends.Head, r backends.Record, seen backends.Version) error {
	return c.write(func(ctx context.Context) (backends.Version, error) { return c.Evict(ctx, head, r, seen) })
}

func (c *candidate) remove(head backends.Head, seen backends.Version) error {
	ctx, cancel := c.s.attempt(c.t)
	defer cancel()
	return c.Remove(ctx, head, seen)
}

func (c *candidate) release(r backends.Record, seen backends.Version) error {
	ctx, cancel := c.s.attempt(c.t)
	defer cancel()
	return c.Release(ctx, r, seen)
}

func (c *candidate) leave() {
	c.t.Helper()
	ctx, cancel := c.s.attempt(c.t)
	defer cancel()
	c.must("Leave", c.Leave(ctx))
}

func (c *candidate) write(call func(context.Context) (backends.Version, error)) error {
	ctx, cancel := c.s.attempt(c.t)
	defer cancel()
	version, err := call(ctx)
	if err == nil {
		c.version = version
	}
	return err
}

func (c *candidate) must(what string, err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatalf("%s: %s = %v, want success", c.who.ID, what, err)
	}
}

func (c *candidate) refused(what string, err, want error) {
	c.t.Helper()
	if !errors.Is(err, want) {
		c.t.Fatalf("%s: %s = %v, want %v", c.who.ID, what, err, want)
	}
}

// sees fails unless the record that this candidate reads has this version and token.
func (c *candidate) sees(version backends.Version, token int64) *backends.Record {
	c.t.Helper()
	v := c.view()
	if v.Version != version || v.Record == nil || v.Record.Token != token {
		c.t.Fatalf("%s: sees version %q of %+v, want %q of token %d", c.who.ID, v.Version, v.Record, version, token)
	}
	return v.Record
}
