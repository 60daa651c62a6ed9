package memory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "/jobs/billing"

func enter(t *testing.T, b backends.Backend, id string) backends.Entry {
	t.Helper()
	e, err := b.Enter(t.Context(), backends.Candidate{Key: key, ID: id, Nonce: "00000000000000000000" + id, TTL: 10 * time.Second})
	if err != nil {
		t.Fatalf("Enter = %v", err)
	}
	t.Cleanup(func() { _ = e.Leave(context.Background()) })
	return e
}

func view(t *testing.T, e backends.Entry) backends.View {
	t.Helper()
	v, err := e.View(t.Context())
	if err != nil {
		t.Fatalf("View = %v", err)
	}
	return v
}

// With Lease set, an entry goes when it was not kept alive, and stays while it is.
func TestLeaseRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewStore()
		s.Lease = func(ttl time.Duration) time.Duration { return 2 * ttl }
		b := s.Open()
		e := enter(t, b, "a")
		for range 5 {
			time.Sleep(15 * time.Second)
			if err := e.Keep(t.Context()); err != nil {
				t.Fatalf("Keep = %v", err)
			}
		}
		time.Sleep(21 * time.Second)
		if err := e.Keep(t.Context()); !errors.Is(err, backends.ErrLost) {
			t.Fatalf("Keep after the lease ran out = %v, want ErrLost", err)
		}
		if got := (<-e.Events()).Kind; got != backends.Gone {
			t.Fatalf("event = %v, want gone", got)
		}
	})
}

// Deliver holds notifications back, each stream by itself, and one that comes after its watch ended is dropped.
func TestDeliverDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type held struct {
			w    memory.Watch
			send func()
		}
		var all []held
		s := memory.NewStore()
		s.Deliver = func(w memory.Watch, send func()) { all = append(all, held{w, send}) }
		b := s.Open()
		first, second := enter(t, b, "a"), enter(t, b, "b")
		second.Observe(true)
		if err := first.Leave(t.Context()); err != nil {
			t.Fatalf("Leave = %v", err)
		}
		token := view(t, second).Token
		want := []memory.Watch{{key, token, memory.Record}, {key, token, memory.Queue}}
		if len(all) != 2 || all[0].w != want[0] || all[1].w != want[1] {
			t.Fatalf("delivered %v, want %v", all, want)
		}
		all[1].send()
		if got := (<-second.Events()).Kind; got != backends.Changed {
			t.Fatalf("event = %v, want changed", got)
		}
		second.Observe(false)
		all[0].send()
		synctest.Wait()
		select {
		case e := <-second.Events():
			t.Fatalf("event %v of a watch that has ended", e.Kind)
		default:
		}
	})
}

// A closed client leaves its entries behind.
func TestCloseWithdrawsNothing(t *testing.T) {
	s := memory.NewStore()
	b := s.Open()
	e := enter(t, b, "a")
	token := view(t, e).Token
	if err := b.Close(); err != nil {
		t.Fatalf("Close = %v", err)
	}
	if got := s.Entries(key); len(got) != 1 || got[0].Token != token {
		t.Fatalf("Entries = %v, want the one with token %d", got, token)
	}
	if _, err := e.View(t.Context()); !errors.Is(err, backends.ErrUnavailable) {
		t.Fatalf("View of a closed client = %v, want ErrUnavailable", err)
	}
}
