package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// errUnsupported: nobody is evicted from a lock that the kernel frees.
var errUnsupported = errors.New("file: evicting is not supported")

type state int

const (
	waiting  state = iota // for the lock; a goroutine is blocked in flock
	held                  // locked, nothing written yet
	acquired              // locked, the record is ours
	lost                  // the file is not ours any more; whatever lock there is stays until Leave
	ended                 // released, or left
)

// entry is one open file on a lease. The lock belongs to it, and to whom it was given through Crash.
type entry struct {
	backend *Backend
	feed    *backends.Feed

	mu       sync.Mutex
	state    state
	lease    *lease // its goroutine replaces it while waiting
	queued   bool   // there is, or was, that goroutine
	broken   error  // why waiting came to an end without the lock
	released bool
	token    int64 // from held on
	wrote    content
	version  backends.Version // of the last beat, which is not in the file
	beats    int64
}

func (e *entry) Store() string { return e.backend.path }

func (e *entry) Events() <-chan backends.Event { return e.feed.C() }

func (e *entry) Observe(bool) {} // Properties.Evicts is false: nobody has to

func (e *entry) Keep(context.Context) error { return nil }

func (e *entry) KeepEvery() time.Duration { return 0 }

// verify looks whether a lock that was granted still protects the term: the path leads to the locked file, the lock is
// this open file's, and the record is what this entry wrote last. With e.mu held.
func (e *entry) verify() (content, error) {
	switch e.state {
	case lost, ended:
		return content{}, e.gone("it was given up or lost before")
	case waiting:
		return content{}, fmt.Errorf("file: %s: another holds the lock: %w", e.lease.path(), backends.ErrConflict)
	}
	switch ok, err := e.lease.current(); {
	case err != nil:
		return content{}, err
	case !ok:
		return content{}, e.lose("the file was deleted or replaced")
	}
	switch ok, err := tryLock(e.lease.f); {
	case err != nil:
		return content{}, explain("lock", e.lease.path(), err)
	case !ok:
		return content{}, e.lose("another holds the lock")
	}
	c, err := e.lease.read()
	switch {
	case errors.Is(err, errDamaged) || errors.Is(err, errForeign) || errors.Is(err, errEmpty) || errors.Is(err, errLater):
		return c, e.lose("the file was overwritten")
	case err != nil:
		return c, err
	case e.state == held && c.token() != e.token-1, e.state == acquired && (c.token() != e.token || c.serial != e.wrote.serial):
		if c.token() > e.token || c.token() == e.token && c.record.Released {
			// The guard has given the term up, with the tree dead, and others may have led since: the lock that was free
			// just now is not ours to keep.
			unlock(e.lease.f)
		}
		return c, e.lose(fmt.Sprintf("the file is at token %d", c.token()))
	}
	return c, nil
}

// lose ends the term but for the lock: as long as the tree may live, whoever still waits for this file shall wait.
func (e *entry) lose(why string) error {
	e.state = lost
	e.feed.Put(backends.Event{Kind: backends.Gone})
	return e.gone(why)
}

func (e *entry) gone(why string) error {
	return fmt.Errorf("file: %s: %s: %w", e.lease.path(), why, backends.ErrLost)
}

func (e *entry) View(ctx context.Context) (backends.View, error) {
	return bounded(ctx, "view", func() (backends.View, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.broken != nil {
			return backends.View{}, e.broken
		}
		if e.state == waiting {
			return e.viewWaiting()
		}
		c, err := e.verify()
		switch {
		case errors.Is(err, backends.ErrLost):
			return backends.View{Token: e.token}, nil
		case err != nil:
			return backends.View{}, err
		}
		v := backends.View{Own: true, Token: e.token, Record: c.inherited(e.lease.id), Version: c.version()}
		if e.state == acquired {
			own := *e.wrote.record
			v.Record, v.Version = &own, e.version
		}
		return v, nil
	})
}

func (e *entry) viewWaiting() (backends.View, error) {
	c, err := e.lease.read()
	if err != nil {
		return backends.View{}, err
	}
	v := backends.View{Own: true, Place: 1, Record: c.record, Version: c.version(), Head: &backends.Head{Name: e.lease.name}}
	if c.record != nil { // of the one before, for a moment, if the present holder has not written yet
		v.Head.Token, v.Head.TTL, v.Head.ID, v.Head.Host = c.record.Token, c.record.TTL, c.record.ID, c.record.Host
	}
	return v, nil
}

// Acquire makes the token durable before it returns.
func (e *entry) Acquire(ctx context.Context, r backends.Record, seen backends.Version) (backends.Version, error) {
	return bounded(ctx, "acquire", func() (backends.Version, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		c, err := e.verifyVersion(seen)
		if err != nil {
			return "", err
		}
		return e.write(c, r, true)
	})
}

// Beat writes nothing: while this process lives and holds the lock, there is nothing to tell anybody. It verifies.
func (e *entry) Beat(ctx context.Context, r backends.Record, seen backends.Version) (backends.Version, error) {
	return bounded(ctx, "beat", func() (backends.Version, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		c, err := e.verifyVersion(seen)
		switch {
		case err != nil:
			return "", err
		case e.state != acquired:
			return "", fmt.Errorf("file: %s: not acquired: %w", e.lease.path(), backends.ErrConflict)
		case r.Token != e.token:
			return "", fmt.Errorf("file: %s: beat with token %d, not %d", e.lease.path(), r.Token, e.token)
		}
		e.beats++
		e.wrote.record, e.version = &r, backends.Version(fmt.Sprintf("%s+%d", c.version(), e.beats))
		return e.version, nil
	})
}

// Release need not be durable: after a power failure nobody asks whether this term was released, since the lock is
// free and no process of it is left.
func (e *entry) Release(ctx context.Context, r backends.Record, seen backends.Version) error {
	_, err := bounded(ctx, "release", func() (struct{}, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.released {
			return struct{}{}, nil
		}
		c, err := e.verifyVersion(seen)
		if err != nil {
			return struct{}{}, err
		}
		if e.state != acquired {
			return struct{}{}, fmt.Errorf("file: %s: not acquired: %w", e.lease.path(), backends.ErrConflict)
		}
		if _, err := e.write(c, r, false); err != nil {
			return struct{}{}, err
		}
		e.released = true
		e.end()
		return struct{}{}, nil
	})
	return err
}

// write is for Acquire and Release, with e.mu held and all verified.
func (e *entry) write(c content, r backends.Record, durable bool) (backends.Version, error) {
	if r.Token != e.token {
		return "", fmt.Errorf("file: %s: write with token %d, not %d", e.lease.path(), r.Token, e.token)
	}
	if err := e.lease.write(c, r, durable); err != nil {
		return "", err
	}
	e.state, e.wrote = acquired, content{serial: c.serial + 1, inode: e.lease.id.inode, record: &r}
	e.version = e.wrote.version()
	return e.version, nil
}

func (e *entry) verifyVersion(seen backends.Version) (content, error) {
	c, err := e.verify()
	if err != nil {
		return c, err
	}
	now := c.version()
	if e.state == acquired {
		now = e.version
	}
	if now != seen {
		return c, fmt.Errorf("file: %s: the record has version %q, not %q: %w", e.lease.path(), now, seen, backends.ErrConflict)
	}
	return c, nil
}

// Evict is not supported.
func (e *entry) Evict(context.Context, backends.Head, backends.Record, backends.Version) (backends.Version, error) {
	return "", errUnsupported
}

// Remove is not supported.
func (e *entry) Remove(context.Context, backends.Head, backends.Version) error { return errUnsupported }

// Leave ignores the end of ctx unless the disk hangs: unlocking needs no answer from anybody. A goroutine that is
// blocked in the kernel's queue ends when its turn comes, and passes the lock on at once.
func (e *entry) Leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, err := bounded(ctx, "leave", func() (struct{}, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.end()
		return struct{}{}, nil
	})
	e.feed.Close()
	return err
}

// Crash shares the open file, and with it the lock. Take it once the entry is the head: before that the file may still
// be replaced by another, and the token is not known.
func (e *entry) Crash() backends.Crash {
	e.mu.Lock()
	defer e.mu.Unlock()
	data, err := json.Marshal(ticket{Path: e.lease.path(), Token: e.token})
	if err != nil {
		panic("file: " + err.Error()) // a string and a number
	}
	return backends.Crash{Data: data, Files: []*os.File{e.lease.f}}
}
