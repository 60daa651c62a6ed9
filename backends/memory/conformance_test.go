package memory_test

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/backendtest"
	"github.com/leaderrun/leaderrun/backends/memory"
)

func TestConformance(t *testing.T) {
	s := memory.NewStore()
	s.Lease = func(ttl time.Duration) time.Duration { return ttl }
	backendtest.Run(t, harness(s))
}

// A watch that lags by a few milliseconds is as good as one that does not.
func TestConformanceWithLaggingWatches(t *testing.T) {
	s := memory.NewStore()
	s.Lease = func(ttl time.Duration) time.Duration { return ttl }
	s.Deliver = func(w memory.Watch, send func()) {
		time.AfterFunc(time.Duration(w.Stream)*3*time.Millisecond, send)
	}
	backendtest.Run(t, harness(s))
}

func harness(s *memory.Store) backendtest.Harness {
	return backendtest.Harness{
		Open:      func(*testing.T) backends.Backend { return s.Open() },
		Expire:    func(_ *testing.T, _ string, token int64) { s.Expire(token) },
		DeleteAll: func(_ *testing.T, key string) { s.DropAll(key) },
		SetRecord: func(_ *testing.T, key string, raw []byte) { s.SetRecord(key, raw) },
		Foreign: func(_ *testing.T, key string) func() {
			s.AddForeign(key)
			return func() { s.RemoveForeign(key) }
		},
		Requests: func(*testing.T) int { return s.Requests() },
		Denied:   func(*testing.T) backends.Backend { return s.OpenDenied() },
		Faults: []backendtest.Fault{{
			Name:  "down",
			Break: func(*testing.T) { s.SetDown(true) },
			Heal:  func(*testing.T) { s.SetDown(false) },
		}},
		ExpiresWithin: backendtest.ShortTTL,
	}
}
