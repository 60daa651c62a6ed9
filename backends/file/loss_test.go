package file_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/file"
)

// Whatever happens to the file under a leader, its next beat is a definite loss.
func TestLossIsNoticed(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, path string){
		"deleted": func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
		"replaced by a copy": replaceByCopy,
		"replaced by a link to a copy": func(t *testing.T, path string) {
			write(t, path+"-copy", read(t, path))
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(path+"-copy", path); err != nil {
				t.Fatal(err)
			}
		},
		"truncated":   func(t *testing.T, path string) { write(t, path, nil) },
		"overwritten": func(t *testing.T, path string) { write(t, path, []byte("hello")) },
		"directory moved": func(t *testing.T, path string) {
			dir := filepath.Dir(path)
			if err := os.Rename(dir, dir+"-moved"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir + "-moved") })
		},
		"directory moved and made again": func(t *testing.T, path string) {
			dir := filepath.Dir(path)
			if err := os.Rename(dir, dir+"-moved"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir + "-moved") })
			enter(t, dir, "stranger")
		},
		"directory deleted": func(t *testing.T, path string) {
			if err := os.RemoveAll(filepath.Dir(path)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			path := filepath.Join(dir, lease)
			e := enter(t, dir, "leader")
			r, version := lead(t, e)
			version, err := e.Beat(t.Context(), r, version)
			if err != nil {
				t.Fatalf("Beat = %v", err)
			}
			harm(t, path)
			if v := view(t, e); v.Own {
				t.Fatalf("View = %+v, want Own false", v)
			}
			if got := (<-e.Events()).Kind; got != backends.Gone {
				t.Fatalf("event = %v, want gone", got)
			}
			for range 2 {
				if _, err := e.Beat(t.Context(), r, version); !errors.Is(err, backends.ErrLost) {
					t.Fatalf("Beat = %v, want ErrLost", err)
				}
			}
			if err := e.Release(t.Context(), r, version); !errors.Is(err, backends.ErrLost) {
				t.Fatalf("Release = %v, want ErrLost", err)
			}
			leave(t, e)
		})
	}
}

func replaceByCopy(t *testing.T, path string) {
	t.Helper()
	write(t, path+"-copy", read(t, path))
	if err := os.Rename(path+"-copy", path); err != nil {
		t.Fatal(err)
	}
}

// The lock on a copy is free while the term on the original runs: it proves nothing, so the copy's holder is owed a
// whole TTL. Once it has written, the file is the original.
func TestCopyIsOwed(t *testing.T) {
	dir, path := leased(t, 1)
	first := enter(t, dir, "first")
	r, version := lead(t, first)
	replaceByCopy(t, path)
	second := enter(t, dir, "second")
	v := view(t, second)
	if v.Place != 0 || v.Token != r.Token+1 {
		t.Fatalf("View = %+v, want the head with token %d", v, r.Token+1)
	}
	if v.Record == nil || v.Record.Released || v.Record.Owe != ttl {
		t.Fatalf("record in a copy = %+v, want it not released and owing %v", v.Record, ttl)
	}
	lead(t, second)
	if _, err := first.Beat(t.Context(), r, version); !errors.Is(err, backends.ErrLost) {
		t.Fatalf("Beat = %v, want ErrLost", err)
	}
	leave(t, second)
	if v := awaitHead(t, enter(t, dir, "third")); !v.Record.Released || v.Record.Owe != 0 {
		t.Fatalf("record = %+v, want it released", v.Record)
	}
}

// Who waits for a file that is replaced meanwhile queues for the new one.
func TestWaiterFollowsTheName(t *testing.T) {
	dir, path := leased(t, 1)
	first := enter(t, dir, "first")
	lead(t, first)
	waiter := enter(t, dir, "waiter")
	replaceByCopy(t, path)
	second := enter(t, dir, "second")
	lead(t, second)
	leave(t, first) // grants the old file to the waiter, which is worth nothing
	if v := view(t, waiter); v.Place != 1 {
		t.Fatalf("place = %d while another holds the new file", v.Place)
	}
	leave(t, second)
	if v := awaitHead(t, waiter); v.Token != 4 {
		t.Fatalf("token = %d, want 4", v.Token)
	}
}

// Another that has the lock is enough for a loss, before it has written anything; and nothing of it is touched then.
func TestLockOfAnother(t *testing.T) {
	dir := t.TempDir()
	first := enter(t, dir, "first")
	r, version := lead(t, first)
	crash := first.Crash()
	if err := unix.Flock(int(crash.Files[0].Fd()), unix.LOCK_UN); err != nil { // by a guard whose disk was full
		t.Fatal(err)
	}
	second := enter(t, dir, "second")
	v := view(t, second)
	before := read(t, filepath.Join(dir, lease))
	r.Released = true
	if err := open(t, dir).Handback(t.Context(), crash, r); err != nil {
		t.Fatalf("Handback = %v", err)
	}
	if string(read(t, filepath.Join(dir, lease))) != string(before) {
		t.Fatalf("a handback wrote under another's lock")
	}
	if _, err := first.Beat(t.Context(), r, version); !errors.Is(err, backends.ErrLost) {
		t.Fatalf("Beat = %v, want ErrLost", err)
	}
	leave(t, first)
	if _, err := second.Acquire(t.Context(), record(v), v.Version); err != nil {
		t.Fatalf("Acquire = %v", err)
	}
}

// A loss does not unlock: the tree of the lost term may be alive until Leave. Who is granted a file that makes no sense
// is told so.
func TestLossKeepsTheLock(t *testing.T) {
	dir, path := leased(t, 1)
	first := enter(t, dir, "first")
	r, version := lead(t, first)
	waiter := enter(t, dir, "waiter")
	good := read(t, path)
	write(t, path, []byte("hello"))
	if _, err := first.Beat(t.Context(), r, version); !errors.Is(err, backends.ErrLost) {
		t.Fatalf("Beat = %v, want ErrLost", err)
	}
	write(t, path, good)
	if other := enter(t, dir, "other"); view(t, other).Place == 0 || view(t, waiter).Place == 0 {
		t.Fatalf("the lock is free before the lost term has left")
	} else {
		leave(t, other)
	}
	write(t, path, []byte("hello"))
	leave(t, first)
	if got := (<-waiter.Events()).Kind; got != backends.Changed {
		t.Fatalf("event = %v, want changed", got)
	}
	_, err := waiter.View(t.Context())
	explained(t, err, path)
}

// Who leaves while blocked in the kernel's queue passes the lock on when it comes.
func TestLeftWaitersPassOn(t *testing.T) {
	dir := t.TempDir()
	first := enter(t, dir, "first")
	lead(t, first)
	for range 5 {
		leave(t, enter(t, dir, "left"))
	}
	last := enter(t, dir, "last")
	leave(t, first)
	lead(t, last)
}

// A call that hangs in the kernel does not hold up its caller.
func TestHangingDisk(t *testing.T) {
	e := enter(t, t.TempDir(), "leader")
	r, version := lead(t, e)
	resume := file.Hang(e)
	begin := time.Now()
	for what, call := range map[string]func(context.Context) error{
		"View":    func(ctx context.Context) error { _, err := e.View(ctx); return err },
		"Beat":    func(ctx context.Context) error { _, err := e.Beat(ctx, r, version); return err },
		"Release": func(ctx context.Context) error { return e.Release(ctx, r, "none") },
		"Leave":   e.Leave,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := call(ctx); !errors.Is(err, backends.ErrUnavailable) {
			t.Errorf("%s = %v, want ErrUnavailable", what, err)
		}
		cancel()
	}
	if took := time.Since(begin); took > 4*time.Second {
		t.Errorf("the calls took %v", took)
	}
	resume()
	leave(t, e)
}

// A beat costs no write; a release keeps the size.
func TestBeatDoesNotWrite(t *testing.T) {
	dir := t.TempDir()
	e := enter(t, dir, "leader")
	r, version := lead(t, e)
	before := read(t, filepath.Join(dir, lease))
	for range 3 {
		var err error
		if version, err = e.Beat(t.Context(), r, version); err != nil {
			t.Fatalf("Beat = %v", err)
		}
	}
	if string(read(t, filepath.Join(dir, lease))) != string(before) {
		t.Fatalf("a beat wrote the file")
	}
	r.Released = true
	if err := e.Release(t.Context(), r, version); err != nil {
		t.Fatalf("Release = %v", err)
	}
	if got := len(read(t, filepath.Join(dir, lease))); got != file.BlockSize {
		t.Fatalf("the file has %d bytes, want %d", got, file.BlockSize)
	}
}
