package file_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/backendtest"
	"github.com/leaderrun/leaderrun/backends/file"
)

const (
	key      = "/jobs/billing"
	lease    = "jobs,billing.lease"
	ttl      = 10 * time.Second
	patience = 5 * time.Second
)

func TestMain(m *testing.M) {
	if mode := os.Getenv("LEADERRUN_FILE_TEST"); mode != "" {
		os.Exit(helper(mode)) // helper_test.go
	}
	goleak.VerifyTestMain(m)
}

func TestConformance(t *testing.T) {
	dir := t.TempDir()
	backendtest.Run(t, backendtest.Harness{
		Open: func(t *testing.T) backends.Backend { return open(t, dir) },
	})
}

func open(t *testing.T, dir string) *file.Backend {
	t.Helper()
	b, err := file.Open(dir, file.Options{})
	if err != nil {
		t.Fatalf("Open = %v", err)
	}
	return b
}

func candidate(id string) backends.Candidate {
	return backends.Candidate{Key: key, ID: id, Host: "host", Nonce: "00112233445566778899", TTL: ttl}
}

// enter uses a Backend of its own, as another process would.
func enter(t *testing.T, dir, id string) backends.Entry {
	t.Helper()
	e, err := open(t, dir).Enter(t.Context(), candidate(id))
	if err != nil {
		t.Fatalf("%s: Enter = %v", id, err)
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

// awaitHead waits for the event that says so, and looks.
func awaitHead(t *testing.T, e backends.Entry) backends.View {
	t.Helper()
	deadline := time.After(patience)
	for {
		if v := view(t, e); v.Place == 0 {
			return v
		}
		select {
		case <-e.Events():
		case <-deadline:
			t.Fatalf("the lock is not granted")
		}
	}
}

func record(v backends.View) backends.Record {
	return backends.Record{V: 1, MinV: 1, ID: "leader", Host: "host", Token: v.Token, TTL: ttl, Owe: ttl, Beat: 1}
}

func lead(t *testing.T, e backends.Entry) (backends.Record, backends.Version) {
	t.Helper()
	v := awaitHead(t, e)
	version, err := e.Acquire(t.Context(), record(v), v.Version)
	if err != nil {
		t.Fatalf("Acquire = %v", err)
	}
	return record(v), version
}

func leave(t *testing.T, e backends.Entry) {
	t.Helper()
	if err := e.Leave(t.Context()); err != nil {
		t.Fatalf("Leave = %v", err)
	}
}

// names lists a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, e := range all {
		got = append(got, e.Name())
	}
	return got
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// leased makes a directory with a lease file whose last token is n.
func leased(t *testing.T, n int) (dir, path string) {
	t.Helper()
	dir = t.TempDir()
	for range n {
		e := enter(t, dir, "former")
		lead(t, e)
		leave(t, e)
	}
	return dir, filepath.Join(dir, lease)
}

// One uncontended term: what a run on this store costs beside its processes.
func BenchmarkTerm(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		store, err := file.Open(dir, file.Options{})
		if err != nil {
			b.Fatal(err)
		}
		e, err := store.Enter(b.Context(), candidate("leader"))
		if err != nil {
			b.Fatal(err)
		}
		v, err := e.View(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		r := record(v)
		version, err := e.Acquire(b.Context(), r, v.Version)
		if err != nil {
			b.Fatal(err)
		}
		if version, err = e.Beat(b.Context(), r, version); err != nil {
			b.Fatal(err)
		}
		r.Released = true
		if err := e.Release(b.Context(), r, version); err != nil {
			b.Fatal(err)
		}
		if err := e.Leave(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
