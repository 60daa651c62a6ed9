package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/file"
)

func memory(t testing.TB, dir string) *file.Memory {
	t.Helper()
	m, err := file.OpenMemory(dir)
	if err != nil {
		t.Fatalf("OpenMemory = %v", err)
	}
	return m
}

func TestMemory(t *testing.T) {
	dir := t.TempDir()
	m := memory(t, dir)
	recall := func(store, key string, want file.Remembered, wantOK bool) {
		t.Helper()
		got, ok, err := memory(t, dir).Recall(store, key)
		if got != want || ok != wantOK || err != nil {
			t.Fatalf("Recall(%s, %s) = %+v, %v, %v, want %+v, %v", store, key, got, ok, err, want, wantOK)
		}
	}
	started := func(token int64, want error) {
		t.Helper()
		if err := m.Started("store", key, token, 1500*time.Microsecond, "boot"); !errors.Is(err, want) {
			t.Fatalf("Started(%d) = %v, want %v", token, err, want)
		}
	}
	ended := func(token int64) {
		t.Helper()
		if err := m.Ended("store", key, token); err != nil {
			t.Fatalf("Ended(%d) = %v", token, err)
		}
	}
	recall("store", key, file.Remembered{}, false)
	started(5, nil)
	five := file.Remembered{Token: 5, TTL: 2 * time.Millisecond, Boot: "boot"}
	recall("store", key, five, true)
	recall("store", "/other", file.Remembered{}, false)
	recall("store2", key, file.Remembered{}, false)
	started(5, file.ErrStale)
	started(4, file.ErrStale)
	ended(4)
	ended(6)
	recall("store", key, five, true)
	ended(5)
	ended(5)
	five.Clean = true
	recall("store", key, five, true)
	started(5, file.ErrStale)
	started(1<<62, nil)
	ended(5)
	recall("store", key, file.Remembered{Token: 1 << 62, TTL: 2 * time.Millisecond, Boot: "boot"}, true)
	if err := m.Ended("store", "/never", 1); err != nil {
		t.Fatalf("Ended of a key that was never started = %v", err)
	}
	recall("store", "/never", file.Remembered{}, false)
}

// A memory file that was damaged is an error that names it, never "not seen".
func TestMemoryDamaged(t *testing.T) {
	dir := t.TempDir()
	m := memory(t, dir)
	if err := m.Started("store", key, 5, ttl, "boot"); err != nil {
		t.Fatalf("Started = %v", err)
	}
	all := names(t, filepath.Join(dir, "memory"))
	if len(all) != 1 {
		t.Fatalf("memory holds %v, want one file", all)
	}
	path := filepath.Join(dir, "memory", all[0])
	good := read(t, path)
	for _, data := range [][]byte{{}, good[:100], []byte("hello")} {
		write(t, path, data)
		_, _, err := m.Recall("store", key)
		explained(t, err, path)
		explained(t, m.Started("store", key, 9, ttl, "boot"), path)
	}
	// Another key's file under this one's name.
	if err := m.Started("store", "/other", 7, ttl, "boot"); err != nil {
		t.Fatalf("Started = %v", err)
	}
	for _, name := range names(t, filepath.Join(dir, "memory")) {
		if name != all[0] {
			write(t, path, read(t, filepath.Join(dir, "memory", name)))
		}
	}
	_, _, err := m.Recall("store", key)
	explained(t, err, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := m.Recall("store", key); ok || err != nil {
		t.Fatalf("Recall after the file was removed = %v, %v", ok, err)
	}
}

// Of many at once each token is accepted in rising order or refused, and none is lost.
func TestMemoryConcurrent(t *testing.T) {
	dir := t.TempDir()
	const each, workers = 40, 4
	var (
		wg       sync.WaitGroup
		mu       sync.Mutex
		accepted []int64
	)
	for w := range workers {
		m := memory(t, dir)
		wg.Go(func() {
			for i := range each {
				token := int64(i*workers + w + 1)
				err := m.Started("store", key, token, ttl, "boot")
				switch {
				case err == nil:
					mu.Lock()
					accepted = append(accepted, token)
					mu.Unlock()
				case !errors.Is(err, file.ErrStale):
					t.Errorf("Started(%d) = %v", token, err)
				}
				if _, _, err := m.Recall("store", key); err != nil {
					t.Errorf("Recall = %v", err)
				}
				if err := m.Ended("store", key, token); err != nil {
					t.Errorf("Ended(%d) = %v", token, err)
				}
			}
		})
	}
	wg.Wait()
	got, _, err := memory(t, dir).Recall("store", key)
	if err != nil || got.Token != each*workers || got.Token != slices.Max(accepted) {
		t.Fatalf("Recall = %+v, %v, want token %d", got, err, each*workers)
	}
}

// Changes of one key exclude each other, and a process that was stopped in the middle of one does not hang the others.
func TestMemoryLocks(t *testing.T) {
	dir := t.TempDir()
	m := memory(t, dir)
	if err := m.Started("store", key, 5, ttl, "boot"); err != nil {
		t.Fatalf("Started = %v", err)
	}
	f, err := os.Open(filepath.Join(dir, "memory", names(t, filepath.Join(dir, "memory"))[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := m.Started("store", key, 6, ttl, "boot"); !errors.Is(err, backends.ErrUnavailable) {
		t.Fatalf("Started in the middle of another's change = %v, want ErrUnavailable", err)
	}
	if got, _, err := m.Recall("store", key); err != nil || got.Token != 5 {
		t.Fatalf("Recall = %+v, %v, want token 5", got, err)
	}
	if err := m.Started("store", "/other", 1, ttl, "boot"); err != nil {
		t.Fatalf("Started of another key = %v", err)
	}
}

func BenchmarkMemoryTerm(b *testing.B) {
	m := memory(b, b.TempDir())
	for i := range int64(b.N) {
		if err := m.Started("store", key, i+1, ttl, "boot"); err != nil {
			b.Fatal(err)
		}
		if err := m.Ended("store", key, i+1); err != nil {
			b.Fatal(err)
		}
	}
}
