package cmd

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends/file"
	"github.com/leaderrun/leaderrun/election"
)

// testHost has a memory of its own and counts sweeps.
func testHost(t *testing.T, boot string, m *file.Memory) (h *host, sweeps *int) {
	t.Helper()
	sweeps = new(int)
	return &host{
		key: "/a", boot: boot, marks: newMarks("/a"), memory: m, log: slog.New(slog.DiscardHandler),
		sweep: func(context.Context, string) (int, int, error) { *sweeps++; return 0, 0, nil },
	}, sweeps
}

func memoryIn(t *testing.T, dir string) *file.Memory {
	t.Helper()
	m, err := file.OpenMemory(dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestHostSweepsUnlessTheLastTermEndedCleanly(t *testing.T) {
	m := memoryIn(t, t.TempDir())
	h, sweeps := testHost(t, "boot1", m)
	prepare := func(h *host, token int64) {
		t.Helper()
		if err := h.Prepare(t.Context(), "S", token, 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	prepare(h, 1)
	if *sweeps != 1 {
		t.Fatalf("%d sweeps when nothing was remembered, want 1", *sweeps)
	}
	h.Ended("S", 1)
	prepare(h, 2)
	if *sweeps != 1 {
		t.Fatalf("%d sweeps after a clean end, want still 1", *sweeps)
	}
	prepare(h, 3)
	if *sweeps != 2 {
		t.Fatalf("%d sweeps after a term that did not end, want 2", *sweeps)
	}
	after, sweeps := testHost(t, "boot2", m)
	prepare(after, 4)
	if *sweeps != 0 {
		t.Fatalf("%d sweeps after a reboot, want 0", *sweeps)
	}
	if got, err := after.Recall("S"); err != nil || got.Token != 4 || got.TTL != 10*time.Second {
		t.Fatalf("Recall = %+v, %v, want token 4", got, err)
	}
	if got, err := after.Recall("other"); err != nil || got.Token != 0 {
		t.Fatalf("Recall of another store = %+v, %v, want nothing", got, err)
	}
}

func TestHostRefusesOldTokens(t *testing.T) {
	h, sweeps := testHost(t, "boot1", memoryIn(t, t.TempDir()))
	if err := h.Prepare(t.Context(), "S", 9, time.Second); err != nil {
		t.Fatal(err)
	}
	before := *sweeps
	for _, token := range []int64{9, 8} {
		if err := h.Prepare(t.Context(), "S", token, time.Second); !errors.Is(err, election.ErrStaleToken) {
			t.Fatalf("Prepare with token %d = %v, want ErrStaleToken", token, err)
		}
	}
	if *sweeps != before {
		t.Fatal("processes were killed for a term that may not start")
	}
}

func TestHostSweepFails(t *testing.T) {
	h, _ := testHost(t, "boot1", memoryIn(t, t.TempDir()))
	failure := errors.New("still alive")
	h.sweep = func(context.Context, string) (int, int, error) { return 1, 0, failure }
	if err := h.Prepare(t.Context(), "S", 1, time.Second); !errors.Is(err, failure) {
		t.Fatalf("Prepare = %v, want %v", err, failure)
	}
	if got, err := h.Recall("S"); err != nil || got.Token != 0 {
		t.Fatalf("Recall = %+v, %v: a term that did not start is remembered", got, err)
	}
}

func TestHostWithoutMemory(t *testing.T) {
	h, sweeps := testHost(t, "boot1", nil)
	for range 2 {
		if err := h.Prepare(t.Context(), "S", 1, time.Second); err != nil {
			t.Fatal(err)
		}
		h.Ended("S", 1)
	}
	if *sweeps != 2 {
		t.Fatalf("%d sweeps, want one for each start", *sweeps)
	}
	if _, err := h.Recall("S"); err == nil {
		t.Fatal("Recall without a memory has no error")
	}
}
