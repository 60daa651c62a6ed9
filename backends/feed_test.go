package backends_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/leaderrun/leaderrun/backends"
)

func seen(v int) backends.Event {
	return backends.Event{Kind: backends.Seen, Version: backends.Version(fmt.Sprint(v))}
}

// What nobody receives piles up to the newest of each kind, behind the one that is on its way out.
func TestFeedKeepsTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := backends.NewFeed()
		defer f.Close()
		f.Put(backends.Event{Kind: backends.Changed})
		synctest.Wait() // it is on its way out
		for v := range 5 {
			f.Put(seen(v))
			f.Put(backends.Event{Kind: backends.Changed})
		}
		f.Put(backends.Event{Kind: backends.Gone})
		want := []backends.Event{{Kind: backends.Changed}, seen(4), {Kind: backends.Changed}, {Kind: backends.Gone}}
		for i, w := range want {
			if got := <-f.C(); got != w {
				t.Fatalf("event %d = %+v, want %+v", i, got, w)
			}
		}
		synctest.Wait()
		select {
		case e := <-f.C():
			t.Fatalf("one more event %+v", e)
		default:
		}
	})
}

// The last record put in comes out, whoever put it in, and records do not go back.
func TestFeedLosesNothing(t *testing.T) {
	f := backends.NewFeed()
	defer f.Close()
	const n = 2000
	go func() {
		for v := range n {
			f.Put(seen(v))
		}
	}()
	last := -1
	for last < n-1 {
		var v int
		if _, err := fmt.Sscan(string((<-f.C()).Version), &v); err != nil || v <= last {
			t.Fatalf("version %d after %d (%v)", v, last, err)
		}
		last = v
	}
}

func TestFeedClose(t *testing.T) {
	f := backends.NewFeed()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for v := range 100 {
				f.Put(seen(v))
			}
			f.Close()
		})
	}
	wg.Wait()
	f.Close()
	f.Put(seen(1))
}

func TestEventKindString(t *testing.T) {
	for kind, want := range map[backends.EventKind]string{
		backends.Changed: "changed", backends.Seen: "seen", backends.Gone: "gone", 0: "unknown",
	} {
		if got := kind.String(); got != want {
			t.Errorf("String of %d = %q, want %q", int(kind), got, want)
		}
	}
}
