package backendtest

import (
	"encoding/json"
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

func (s *suite) acquireConditions(t *testing.T) {
	key := newKey()
	first, second := s.enter(t, key, "first"), s.enter(t, key, "second")
	v := first.awaitHead()
	if first.token <= 0 {
		t.Fatalf("token of the head = %d, want a positive one", first.token)
	}
	if second.view(); second.token == 0 {
		second.token = first.token + 1 // a store that knows it only at the head
	}
	second.refused("Acquire behind the head", second.acquire(second.record(), v.Version), backends.ErrConflict)
	first.refused("Acquire over a version that never was", first.acquire(first.record(), "4711"), backends.ErrConflict)
	first.must("Acquire", first.acquire(first.record(), v.Version))
	first.refused("a late duplicate of Acquire", first.acquire(first.record(), v.Version), backends.ErrConflict)
	first.sees(first.version, first.token)
	first.must("Release", first.release(first.released(), first.version))
	v = second.awaitHead()
	second.refused("Acquire over an earlier version", second.acquire(second.record(), first.version), backends.ErrConflict)
	second.must("Acquire", second.acquire(second.record(), v.Version))
	first.refused("Acquire after Release", first.acquire(first.record(), second.version), backends.ErrLost)
	second.sees(second.version, second.token)
}

func (s *suite) acquireGone(t *testing.T) {
	key := newKey()
	head := s.enter(t, key, "head")
	v := head.awaitHead()
	s.h.Expire(t, key, head.token)
	head.refused("Acquire", head.acquire(head.record(), v.Version), backends.ErrLost)
	next := s.enter(t, key, "next")
	if v := next.view(); !v.Own || v.Place != 0 || v.Version != "" {
		t.Fatalf("View behind a dropped head = %+v, want the head of an unwritten key", v)
	}
}

// Rule 3: the read at acquisition sees what was committed before it, from whatever client.
func (s *suite) acquireReadsLatest(t *testing.T) {
	key := newKey()
	for range 5 {
		leader, next := s.leader(t, key, "leader"), s.enter(t, key, "next")
		for range 5 {
			leader.must("Beat", leader.beat(leader.record(), leader.version))
			if r := next.sees(leader.version, leader.token); r.Beat != leader.beats {
				t.Fatalf("beat %d seen, want %d", r.Beat, leader.beats)
			}
		}
		leader.leave()
		if v := next.view(); v.Place != 0 || v.Version != leader.version {
			t.Fatalf("View after the leader left = place %d, version %q, want 0, %q", v.Place, v.Version, leader.version)
		}
		next.leave()
	}
}

func (s *suite) beatConditions(t *testing.T) {
	key := newKey()
	leader := s.leader(t, key, "leader")
	first := leader.version
	leader.must("Beat", leader.beat(leader.record(), first))
	leader.refused("a late duplicate of Beat", leader.beat(leader.record(), first), backends.ErrConflict)
	leader.refused("Beat over an absent record", leader.beat(leader.record(), ""), backends.ErrConflict)
	leader.sees(leader.version, leader.token)
	leader.must("Beat after refused ones", leader.beat(leader.record(), leader.version))
	last := leader.version
	leader.must("Release", leader.release(leader.released(), last))
	leader.refused("Beat after Release", leader.beat(leader.record(), last), backends.ErrLost)
	next := s.leader(t, key, "next")
	leader.refused("Beat under another's term", leader.beat(leader.record(), last), backends.ErrLost)
	leader.refused("Beat over another's version", leader.beat(leader.record(), next.version), backends.ErrLost)
	next.sees(next.version, next.token)
}

func (s *suite) beatGone(t *testing.T) {
	key := newKey()
	leader := s.leader(t, key, "leader")
	before := leader.version
	s.h.Expire(t, key, leader.token)
	leader.refused("Beat", leader.beat(leader.record(), before), backends.ErrLost)
	leader.refused("Keep", s.keep(t, leader), backends.ErrLost)
	next := s.enter(t, key, "next")
	if v := next.awaitHead(); v.Version != before {
		t.Fatalf("version = %q after a refused beat, want %q", v.Version, before)
	}
}

func (s *suite) keep(t *testing.T, c *candidate) error {
	ctx, cancel := s.attempt(t)
	defer cancel()
	return c.Keep(ctx)
}

func (s *suite) beatDeleted(t *testing.T) {
	key := newKey()
	leader := s.leader(t, key, "leader")
	s.h.DeleteAll(t, key)
	leader.refused("Beat", leader.beat(leader.record(), leader.version), backends.ErrLost)
	leader.refused("Beat", leader.beat(leader.record(), ""), backends.ErrLost)
	leader.refused("Release", leader.release(leader.released(), leader.version), backends.ErrLost)
	if v := leader.view(); v.Own || v.Version != "" {
		t.Fatalf("View after a deletion = %+v, want nothing", v)
	}
}

// A leader's next beat repairs what an operator wrote or removed, after a look; another's term is a loss.
func (s *suite) beatOverwritten(t *testing.T) {
	key := newKey()
	leader := s.leader(t, key, "leader")
	for _, raw := range [][]byte{[]byte("hello"), {}, nil} {
		before := leader.version
		s.h.SetRecord(t, key, raw)
		leader.refused("Beat", leader.beat(leader.record(), before), backends.ErrConflict)
		v := leader.view()
		if !v.Own || v.Record != nil || v.Version == before || (v.Version == "") != (raw == nil) || (v.Unreadable == nil) != (raw == nil) {
			t.Fatalf("View over %q = %+v", raw, v)
		}
		leader.must("Beat that repairs", leader.beat(leader.record(), v.Version))
		leader.sees(leader.version, leader.token)
	}
	before := leader.version
	other := leader.record()
	other.Token++
	raw, err := json.Marshal(other)
	if err != nil {
		t.Fatal(err)
	}
	s.h.SetRecord(t, key, raw)
	leader.refused("Beat under another's record", leader.beat(leader.record(), before), backends.ErrLost)
	leader.refused("Release under another's record", leader.release(leader.released(), before), backends.ErrLost)
}

func (s *suite) recordVersions(t *testing.T) {
	key := newKey()
	seen := map[backends.Version]bool{"": true}
	note := func(v backends.Version) {
		t.Helper()
		if seen[v] {
			t.Fatalf("version %q came back", v)
		}
		seen[v] = true
	}
	for range 3 {
		c := s.leader(t, key, "leader")
		note(c.version)
		r := c.record()
		for range 4 { // the same content, written again, is another version
			c.must("Beat", c.beat(r, c.version))
			note(c.version)
		}
		c.must("Release", c.release(c.released(), c.version))
		next := s.enter(t, key, "next")
		note(next.awaitHead().Version)
		next.leave()
	}
}

func (s *suite) recordFields(t *testing.T) {
	key := newKey()
	leader, reader := s.enter(t, key, "leader"), s.enter(t, key, "reader")
	v := leader.awaitHead()
	want := backends.Record{
		V: 1, MinV: 1, ID: "leader \"über\" \x7f <&>", Host: "host", PID: 1 << 22, Boot: "b-o-o-t", Token: leader.token,
		TTL: 4321 * time.Millisecond, Owe: 1234 * time.Millisecond, Beat: 1 << 40,
		Since: time.Date(2026, 2, 3, 4, 5, 6, 789, time.UTC),
		Extra: map[string]json.RawMessage{"later": json.RawMessage(`{"a":[1,2]}`)},
	}
	leader.must("Acquire", leader.acquire(want, v.Version))
	if got := reader.sees(leader.version, leader.token); !reflect.DeepEqual(*got, want) {
		t.Fatalf("record = %+v, want %+v", *got, want)
	}
	want.Owe, want.Beat, want.TTL = 0, want.Beat+1, backends.MaxTTL
	leader.must("Beat", leader.beat(want, leader.version))
	if got := reader.sees(leader.version, leader.token); !reflect.DeepEqual(*got, want) {
		t.Fatalf("record = %+v, want %+v", *got, want)
	}
}

// Fields of later formats go through every write that this version makes.
func (s *suite) recordExtra(t *testing.T) {
	key := newKey()
	extra := map[string]json.RawMessage{"later": json.RawMessage(`[1,"x"]`)}
	check := func(where string) {
		t.Helper()
		c := s.enter(t, key, "reader")
		v := c.awaitHead()
		if v.Record == nil || !maps.EqualFunc(v.Record.Extra, extra, sameJSON) {
			t.Fatalf("after %s the record is %+v, want the unknown fields %s", where, v.Record, extra)
		}
		c.leave()
	}
	first := s.enter(t, key, "first")
	v := first.awaitHead()
	r := first.record()
	r.Extra = extra
	first.must("Acquire", first.acquire(r, v.Version))
	first.leave()
	check("Acquire")

	second := s.enter(t, key, "second")
	v = second.awaitHead()
	r = second.record()
	r.Extra = v.Record.Extra
	second.must("Acquire", second.acquire(r, v.Version))
	second.must("Beat", second.beat(r, second.version))
	r.Released = true
	second.must("Release", second.release(r, second.version))
	check("Release")

	third := s.enter(t, key, "third")
	v = third.awaitHead()
	r = third.record()
	r.Extra = v.Record.Extra
	third.must("Acquire", third.acquire(r, v.Version))
	// The guard knows the term, not what somebody's later format added: the driver keeps it.
	third.must("Handback", s.handback(t, third, third.released()))
	check("Handback")
}

func sameJSON(a, b json.RawMessage) bool { return string(a) == string(b) }

func (s *suite) recordUnreadable(t *testing.T) {
	seen := map[backends.Version]bool{"": true}
	key := newKey()
	for _, raw := range []string{"", "hello", "null", "{}", `{"token":-1,"ttl":1,"owe":0}`, `{"token":7}`, "\x00\xff"} {
		s.h.SetRecord(t, key, []byte(raw))
		c := s.enter(t, key, "reader")
		v := c.awaitHead()
		if v.Record != nil || v.Unreadable == nil || seen[v.Version] {
			t.Fatalf("View over %q = record %+v, version %q, unreadable %v", raw, v.Record, v.Version, v.Unreadable)
		}
		seen[v.Version] = true
		c.must("Acquire over an unreadable record", c.acquire(c.record(), v.Version))
		c.sees(c.version, c.token)
		c.leave()
	}
}

func (s *suite) recordLater(t *testing.T) {
	key := newKey()
	s.h.SetRecord(t, key, []byte(`{"v":9,"minv":9,"token":5,"ttl":2000,"owe":100,"released":true,"mode":"x"}`))
	v := s.enter(t, key, "reader").awaitHead()
	want := backends.Record{
		V: 9, MinV: 9, Token: 5, TTL: 2 * time.Second, Owe: 100 * time.Millisecond, Released: true,
		Extra: map[string]json.RawMessage{"mode": json.RawMessage(`"x"`)},
	}
	if v.Unreadable != nil || v.Record == nil || !reflect.DeepEqual(*v.Record, want) {
		t.Fatalf("record of a later format = %+v, %v, want %+v", v.Record, v.Unreadable, want)
	}
}

func (s *suite) releaseHandsOver(t *testing.T) {
	key := newKey()
	leader, next := s.leader(t, key, "leader"), s.enter(t, key, "next")
	next.view()
	leader.must("Release", leader.release(leader.released(), leader.version))
	next.await(backends.Changed)
	v := next.view()
	if !v.Own || v.Place != 0 || v.Head != nil {
		t.Fatalf("View after the release = %+v, want the head", v)
	}
	if v.Record == nil || !v.Record.Released || v.Record.Owe != 0 || v.Record.Token != leader.token || v.Version == leader.version {
		t.Fatalf("record after the release = %+v with version %q", v.Record, v.Version)
	}
	if v := leader.view(); v.Own {
		t.Fatalf("View of the released entry = %+v, want Own false", v)
	}
}

// Who gives up before its predecessor's silence is over leaves the rest in force.
func (s *suite) releaseOwing(t *testing.T) {
	key := newKey()
	leader := s.leader(t, key, "leader")
	r := leader.record()
	r.Owe = 2345 * time.Millisecond
	leader.must("Release", leader.release(r, leader.version))
	v := s.enter(t, key, "next").awaitHead()
	if v.Record == nil || v.Record.Released || v.Record.Owe != r.Owe || v.Record.Token != leader.token {
		t.Fatalf("record = %+v, want owe %v and not released", v.Record, r.Owe)
	}
}

func (s *suite) releaseConditions(t *testing.T) {
	key := newKey()
	leader, next := s.leader(t, key, "leader"), s.enter(t, key, "next")
	first := leader.version
	leader.must("Beat", leader.beat(leader.record(), first))
	leader.refused("Release over an earlier version", leader.release(leader.released(), first), backends.ErrConflict)
	if v := leader.view(); !v.Own || v.Place != 0 || v.Version != leader.version {
		t.Fatalf("View after a refused release = %+v, want all as before", v)
	}
	leader.must("Beat after a refused release", leader.beat(leader.record(), leader.version))
	leader.must("Release", leader.release(leader.released(), leader.version))
	next.lead()
	// Either answer is right: the entry is gone, and a driver may remember that its release took effect.
	if err := leader.release(leader.released(), next.version); err != nil {
		leader.refused("Release over a successor", err, backends.ErrLost)
	}
	next.sees(next.version, next.token)
	next.must("Beat", next.beat(next.record(), next.version))
}

// A release whose reply was lost is repeated, with the version that it knew or after a look.
func (s *suite) releaseTwice(t *testing.T) {
	key := newKey()
	leader := s.leader(t, key, "leader")
	before := leader.version
	leader.must("Release", leader.release(leader.released(), before))
	leader.must("Release again", leader.release(leader.released(), before))
	next := s.enter(t, key, "next")
	v := next.awaitHead()
	leader.must("Release again", leader.release(leader.released(), v.Version))
	if got := next.view().Version; got != v.Version {
		t.Fatalf("version = %q after a repeated release, want %q", got, v.Version)
	}
	next.lead()
}

func (s *suite) releaseGone(t *testing.T) {
	key := newKey()
	leader, next := s.leader(t, key, "leader"), s.enter(t, key, "next")
	before := leader.version
	s.h.Expire(t, key, leader.token)
	leader.refused("Release", leader.release(leader.released(), before), backends.ErrLost)
	if v := next.awaitHead(); v.Version != before || v.Record.Released {
		t.Fatalf("record after a refused release = %+v with version %q, want %q", v.Record, v.Version, before)
	}
}
