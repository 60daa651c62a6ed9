// Package file is the store in a directory: one machine, no server.
//
// Each key has one lease file, and leading is holding its flock(2). The kernel keeps the queue and hands the lock over
// at once when its holder unlocks it or when the last process that has the open file is gone. leaderrun and its guard
// share one open file, and unlock only once the tree of the term is dead; the child never gets it. So holding the lock
// is the proof that the term before is over, and the record needs no observing (Properties.Evicts is false).
//
// The file holds the record, and with it the last token. A file that is empty, damaged or not ours is an error that
// names it, never a fresh start: tokens would go back to 1.
//
// What it does not promise. A lease file that was deleted or replaced under a leader is noticed by the leader's next
// beat; until then only what this host remembers (Memory) keeps another from starting. If all of a term's processes of
// ours were killed at one stroke, what is left of its tree is the sweep's. Across machines it promises nothing: a
// network file system is refused unless Options.Network says otherwise. Calls to a disk that hangs cannot be ended;
// their attempts fail in time and the call itself lives on until the disk answers.
package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/backends"
)

// Options of Open.
type Options struct {
	Network bool // allow a network file system
}

// Backend is a directory of lease files. Its methods may be called concurrently.
type Backend struct {
	path    string // real path
	options Options

	mu     sync.Mutex
	gaveUp time.Time // when an entry of this process last unlocked its file
}

// Open makes the directory if there is none, and sees that it can be used. The error wraps backends.ErrDenied where
// permissions are missing, and has a hint.
func Open(path string, o Options) (*Backend, error) {
	if !filepath.IsAbs(path) {
		return nil, backends.WithHint(fmt.Errorf("file: the directory %q is not an absolute path", path), "write file:///some/dir")
	}
	actual, err := makeDir(path)
	if err != nil {
		return nil, err
	}
	b := &Backend{path: actual, options: o}
	d, err := b.open()
	if err != nil {
		return nil, err
	}
	d.close()
	return b, nil
}

// Properties says that nobody is evicted here.
func (b *Backend) Properties() backends.Properties { return backends.Properties{} }

// Close does nothing: each entry has its own descriptors.
func (b *Backend) Close() error { return nil }

func (b *Backend) open() (*dir, error) {
	d, err := openDir(b.path)
	if err != nil {
		return nil, err
	}
	if !b.options.Network {
		if err := d.checkLocal(); err != nil {
			d.close()
			return nil, err
		}
	}
	return d, nil
}

// Enter opens the key's lease file, making it if there is none, and asks for its lock.
func (b *Backend) Enter(ctx context.Context, c backends.Candidate) (backends.Entry, error) {
	if err := backends.CheckKey(c.Key); err != nil {
		return nil, err
	}
	b.yield(ctx)
	e := &entry{backend: b, feed: backends.NewFeed()}
	_, err := bounded(ctx, "enter", func() (struct{}, error) { return struct{}{}, e.enter(fileName(c.Key)) })
	if err == nil {
		return e, nil
	}
	e.feed.Close()
	go func() { // with a disk that hangs, enter is not over
		e.mu.Lock()
		defer e.mu.Unlock()
		e.end()
	}()
	return nil, err
}

// afterYou is how long a process that gave a lease up waits before it asks for one again: the kernel wakes the first
// in its queue, but gives the lock to whoever asks first, and that would be us, every time.
const afterYou = 20 * time.Millisecond

func (b *Backend) yield(ctx context.Context) {
	b.mu.Lock()
	wait := time.Until(b.gaveUp.Add(afterYou))
	b.mu.Unlock()
	if wait <= 0 {
		return
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// ticket is what Crash carries beside the descriptor.
type ticket struct {
	Path  string `json:"path"`
	Token int64  `json:"token"` // 0: unknown yet
}

// Handback gives a term up through the descriptor that the dead process shared with this one. It unlocks: whoever
// calls it has seen that the tree is dead.
func (b *Backend) Handback(ctx context.Context, c backends.Crash, r backends.Record) error {
	var t ticket
	if err := json.Unmarshal(c.Data, &t); err != nil || len(c.Files) != 1 {
		return errors.New("file: hand back: this is not what a crash left")
	}
	if t.Token == 0 {
		t.Token = r.Token
	}
	_, err := bounded(ctx, "hand back "+t.Path, func() (struct{}, error) {
		return struct{}{}, handback(c.Files[0], t, r)
	})
	return err
}

func handback(f *os.File, t ticket, r backends.Record) error {
	switch ours, err := tryLock(f); {
	case errors.Is(err, os.ErrClosed):
		return nil // given up before
	case err != nil:
		return explain("hand back", t.Path, err)
	case !ours:
		return nil // given up before, and another's by now
	}
	defer unlock(f)
	c, err := readContent(f)
	if err != nil {
		return explain("hand back", t.Path, err)
	}
	if !c.record.Mine(t.Token) || r.Token != t.Token || c.record.Released {
		return nil
	}
	if r.Extra == nil {
		r.Extra = c.record.Extra
	}
	if err := writeContent(f, c, r); err != nil {
		return explain("hand back", t.Path, err)
	}
	return nil
}

// fileName is the name of a key's lease file: flat, and "," is in no key.
func fileName(key string) string { return strings.ReplaceAll(key[1:], "/", ",") + ".lease" }

// bounded runs op and returns when ctx is done, if that is sooner: op goes on then, and may still take effect.
func bounded[T any](ctx context.Context, what string, op func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, fmt.Errorf("file: %s: %w: %w", what, backends.ErrUnavailable, err)
	}
	done := make(chan result, 1)
	go func() {
		v, err := op()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return zero, fmt.Errorf("file: %s: the disk does not answer: %w: %w", what, backends.ErrUnavailable, ctx.Err())
	}
}

// tryLock takes the lock of the open file, if it is free or already this open file's.
func tryLock(f *os.File) (bool, error) {
	err := flock(f, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// unlock frees the lock for all who share the open file: closing one descriptor of several would not.
func unlock(f *os.File) { _ = flock(f, unix.LOCK_UN) }

func flock(f *os.File, how int) error {
	fd := f.Fd()
	if fd == ^uintptr(0) {
		return os.ErrClosed
	}
	_, err := retry(func() (struct{}, error) { return struct{}{}, unix.Flock(int(fd), how) })
	return err
}
