package election

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/boottime"
)

// term is what is known of the present entry, and of the term that it became.
type term struct {
	entry  backends.Entry
	memory Memory // of this host
	token  int64

	// The queue.
	looked       bool
	place        int
	head         *backends.Head
	headAt       boottime.Time // when it was first seen as head
	emptyAtEntry bool
	viewing      bool
	viewAgain    bool
	lookWait     backoff
	keepWait     backoff

	// The record as last seen, and when that version was first received.
	seenAny     bool
	record      *backends.Record
	seenVersion backends.Version
	seenAt      boottime.Time
	unreadable  bool
	versions    int

	// The term.
	mine     backends.Version // the version that I wrote last
	beats    int64            // number of the last attempt
	tries    map[int64]try    // attempts of which it is not known whether they took effect
	since    time.Time
	mayStart boottime.Time
	promised bool // a record that owes T was committed
	armed    bool
	deadline Deadline
	beating  bool
	beatWait backoff

	// The child.
	preparing bool
	prepared  bool
	prepWait  backoff
	begun     bool          // start was sent once: a child may have run
	running   bool          // start was sent, and the tree is not gone
	childDone bool          // its status is known
	began     boottime.Time // of the first start
	ranSince  boottime.Time // of the last
	restarts  backoff
	lapsed    bool // stopped for the lease: its own status does not count
	relWait   backoff
}

// acquire takes the record, as the head of the queue.
func (c *campaign) acquire() {
	c.state = acquiring
	entry, seen := c.entry, c.seenVersion
	c.take(func(ctx context.Context, r backends.Record) (backends.Version, error) {
		return entry.Acquire(ctx, r, seen)
	})
}

// evict takes the term of a silent leader.
func (c *campaign) evict() {
	c.state = acquiring
	c.log.Warn("the leader is silent, taking over", "key", c.cfg.Candidate.Key, "leader", c.record.ID, "token", c.record.Token)
	entry, head, seen := c.entry, *c.head, c.seenVersion
	c.take(func(ctx context.Context, r backends.Record) (backends.Version, error) {
		return entry.Evict(ctx, head, r, seen)
	})
}

func (c *campaign) take(write func(context.Context, backends.Record) (backends.Version, error)) {
	if c.since.IsZero() {
		c.since = time.Now()
	}
	r, beat, _ := c.write(c.owedUntil())
	c.call(evTaken, c.attempt(), func(ctx context.Context) message {
		v, err := write(ctx, r)
		return message{version: v, beat: beat, err: err}
	})
}

// taken is the answer to an acquisition or an eviction.
func (c *campaign) taken(m message) {
	switch {
	case m.err == nil:
		c.reached()
		c.won(m.beat, m.version)
	case errors.Is(m.err, backends.ErrLost):
		c.entryGone(m)
	case errors.Is(m.err, backends.ErrConflict):
		c.look()
	case errors.Is(m.err, backends.ErrUnavailable):
		c.unavailable(m.err)
		c.after(evLook, c.lookWait.next(20*time.Millisecond, c.cfg.Timing.Renew, c.cfg.Jitter()))
	default:
		c.finish(m.err)
	}
}

// settle reads what became of an acquisition whose answer did not tell.
func (c *campaign) settle(m message) {
	if !c.viewed(m) {
		return
	}
	switch {
	case !m.view.Own:
		c.entryGone(m)
	case m.view.Record.Mine(c.token):
		c.resolve(m.view)
	case c.ending:
		c.leave()
	default:
		c.viewing, c.state = false, queued
		c.placed(m)
	}
}

// resolve: the record is ours. It counts from the send of the very attempt that wrote it (rule 5).
func (c *campaign) resolve(v backends.View) {
	if _, ok := c.tries[v.Record.Beat]; !ok {
		c.log.Error("the record carries our token and is not ours", "key", c.cfg.Candidate.Key, "token", c.token)
		c.finish(ErrStaleToken)
		return
	}
	c.won(v.Record.Beat, v.Version)
}

// won: the record is ours. All other attempts named an older version and can have no effect any more.
func (c *campaign) won(beat int64, v backends.Version) {
	a := c.tries[beat]
	c.off(evSilence, evLook)
	c.entry.Observe(false)
	c.state, c.mayStart = waiting, a.mayStart
	if left := a.mayStart.Sub(c.Clock.Now()); left > 0 {
		c.log.Info("elected, waiting for what the last leader is owed", "key", c.cfg.Candidate.Key, "token", c.token, "wait", left)
	} else {
		c.log.Info("elected", "key", c.cfg.Candidate.Key, "id", c.cfg.Candidate.ID, "token", c.token)
	}
	c.committed(beat, v)
	if c.ending && c.state == waiting {
		c.release()
	}
}

// tryStart starts the child as soon as nothing stands against it: nothing is owed, a record that owes T to our successor
// was committed, this host is ready, and TERM for the present deadline is still ahead (rule 1).
func (c *campaign) tryStart() {
	now := c.Clock.Now()
	switch {
	case now.Before(c.mayStart):
		c.at(evStart, c.mayStart)
	case !c.promised:
		c.beat()
	case !c.prepared:
		c.prepareHost()
	case c.armed && now.Before(c.deadline.Term):
		c.begin()
	}
}

func (c *campaign) startNow(message) { c.tryStart() }

func (c *campaign) prepareHost() {
	if c.preparing {
		return
	}
	c.preparing = true
	store, token := c.entry.Store(), c.token
	c.call(evPrepared, c.cfg.Timing.TTL, func(ctx context.Context) message {
		return message{err: c.Host.Prepare(ctx, store, token, c.cfg.Timing.TTL)}
	})
}

func (c *campaign) preparedHost(m message) {
	c.preparing = false
	switch {
	case m.err == nil:
		c.prepared = true
		c.tryStart()
	case errors.Is(m.err, ErrStaleToken):
		c.log.Error("refusing to start: was the store restored from a backup?", "key", c.cfg.Candidate.Key, "token", c.token, "err", m.err)
		c.final, c.err = true, m.err
		c.release()
	default:
		c.log.Error("this host is not ready for a new term, trying again", "key", c.cfg.Candidate.Key, "err", m.err)
		c.after(evStart, c.prepWait.next(100*time.Millisecond, 5*time.Second, c.cfg.Jitter()))
	}
}

// begin sends start. The guard looks at its own clock once more.
func (c *campaign) begin() {
	now := c.Clock.Now()
	if !c.begun {
		c.began = now
	}
	c.off(evWait)
	c.state, c.foreign = leading, false
	c.begun, c.running, c.childDone, c.ranSince = true, true, false, now
	c.Runner.Begin(c.token, c.deadline)
}

func (c *campaign) started(m message) {
	c.result.Ran = true
	c.log.Info("started", "key", c.cfg.Candidate.Key, "pid", m.child.PID, "token", c.token)
}

func (c *campaign) startFailed(m message) {
	c.running = false
	c.final, c.err = true, &StartError{m.child.Err}
	if c.state == lost {
		c.Runner.Disarm(c.token)
		c.leave()
		return
	}
	c.release()
}

func (c *campaign) exited(m message) {
	c.childDone = true
	if !c.lapsed {
		c.result.Ran, c.result.Status = true, m.child.Status
	}
	c.log.Info("ended", "key", c.cfg.Candidate.Key, "status", m.child.Status)
}

// signalWaiting: elected, with no child yet. What is still owed goes into the release.
func (c *campaign) signalWaiting(m message) {
	if !ends(m.signal.Num) {
		return
	}
	c.final, c.err = true, &StoppedError{m.signal.Num}
	c.release()
}

// signalLeading passes a signal on, unless the child has it already. TERM and INT ask us to stop.
func (c *campaign) signalLeading(m message) {
	stop := m.signal.Num == syscall.SIGTERM || m.signal.Num == syscall.SIGINT
	if !c.running {
		if ends(m.signal.Num) {
			c.stopped, c.final = m.signal.Num, true
			c.release()
		}
		return
	}
	if !m.signal.Group {
		c.Runner.Signal(c.token, m.signal.Num)
	}
	if stop {
		c.stopped, c.state = m.signal.Num, draining
		if c.cfg.StopTimeout > 0 {
			c.after(evStop, c.cfg.StopTimeout)
		}
	}
}

// signalDraining: a second TERM means now.
func (c *campaign) signalDraining(m message) {
	if m.signal.Num == syscall.SIGTERM && c.stopped == syscall.SIGTERM {
		c.log.Warn("asked to stop again, killing", "key", c.cfg.Candidate.Key)
		c.Runner.Kill(c.token)
		return
	}
	if !m.signal.Group {
		c.Runner.Signal(c.token, m.signal.Num)
	}
	if m.signal.Num == syscall.SIGTERM {
		c.stopped = syscall.SIGTERM
	}
}

func (c *campaign) stopTimedOut(message) {
	c.log.Warn("still running at the end of the stop time-out, killing", "key", c.cfg.Candidate.Key)
	c.Runner.Kill(c.token)
}
