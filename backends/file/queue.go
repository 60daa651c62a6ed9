package file

import (
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/backends"
)

// enter opens the lease file and asks for its lock.
func (e *entry) enter(name string) (err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state == ended { // given up before it began
		return nil
	}
	if e.lease, err = e.backend.openLease(name); err != nil {
		return err
	}
	return e.ask()
}

// ask takes the lock or queues for it. The file has to make sense before anybody waits for it.
func (e *entry) ask() error {
	if _, err := e.lease.read(); err != nil {
		return err
	}
	for {
		switch ok, err := tryLock(e.lease.f); {
		case err != nil:
			return explain("lock", e.lease.path(), err)
		case !ok:
			e.queued = true
			go e.wait(e.lease)
			return nil
		}
		switch ok, err := e.lease.current(); {
		case err != nil:
			return err
		case ok:
			return e.hold()
		}
		again, err := e.backend.openLease(e.lease.name)
		if err != nil {
			return err
		}
		e.lease.close()
		e.lease = again
	}
}

// wait blocks in the kernel's queue until the lock is granted. Nothing can call it back: if the entry has left
// meanwhile, it passes the lock on.
func (e *entry) wait(l *lease) {
	for {
		err := flock(l.f, unix.LOCK_EX)
		e.mu.Lock()
		if e.state != waiting {
			unlock(l.f)
			l.close()
			e.mu.Unlock()
			return
		}
		var ok bool
		if err != nil {
			err = explain("lock", l.path(), err)
		} else if ok, err = l.current(); ok {
			err = e.hold()
		} else if err == nil { // the file was replaced while we waited: queue for the new one
			var again *lease
			if again, err = e.backend.openLease(l.name); err == nil {
				l.close()
				l, e.lease = again, again
				e.mu.Unlock()
				continue
			}
		}
		if e.broken = err; err != nil {
			unlock(l.f)
		}
		e.mu.Unlock()
		e.feed.Put(backends.Event{Kind: backends.Changed})
		return
	}
}

// hold notes that the lock was granted, with e.mu held or before anybody else has e.
func (e *entry) hold() error {
	c, err := e.lease.read()
	if err != nil {
		return err
	}
	if c.token() == math.MaxInt64 {
		return explain("use", e.lease.path(), errDamaged)
	}
	e.state, e.token = held, c.token()+1
	return nil
}

// end gives up what the entry has, with e.mu held.
func (e *entry) end() {
	if e.state == ended {
		return
	}
	before := e.state
	e.state = ended
	if e.lease == nil || before == waiting && e.queued && e.broken == nil {
		return // nothing was opened, or the files are the goroutine's
	}
	unlock(e.lease.f)
	e.lease.close()
	e.backend.mu.Lock()
	e.backend.gaveUp = time.Now()
	e.backend.mu.Unlock()
}
