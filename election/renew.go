package election

import (
	"context"
	"errors"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// beat is one attempt to renew: the record is written on condition that it has the version that we wrote last.
func (c *campaign) beat() {
	if c.beating {
		return
	}
	c.beating = true
	r, beat, a := c.write(c.mayStart)
	entry, seen := c.entry, c.mine
	// The next one is due whatever becomes of this one; a failure brings it forward.
	c.at(evBeat, a.sent.Add(c.cfg.Timing.Renew))
	c.call(evBeaten, c.attempt(), func(ctx context.Context) message {
		v, err := entry.Beat(ctx, r, seen)
		return message{version: v, beat: beat, err: err}
	})
}

func (c *campaign) beatNow(message) { c.beat() }

func (c *campaign) beaten(m message) {
	c.beating = false
	switch {
	case m.err == nil:
		c.reached()
		c.log.Debug("renewed", "key", c.cfg.Candidate.Key, "token", c.token, "beat", m.beat)
		c.committed(m.beat, m.version)
	case errors.Is(m.err, backends.ErrLost):
		c.lose(m)
	case errors.Is(m.err, backends.ErrConflict):
		c.look() // not a loss by itself: an earlier attempt of ours may have taken effect (rule 5)
	default:
		left := c.deadline.Term.Sub(c.Clock.Now())
		c.log.Warn("not renewed, trying again", "key", c.cfg.Candidate.Key, "token", c.token, "left", left, "err", m.err)
		c.unreachable = m.err
		c.after(evBeat, c.beatWait.next(10*time.Millisecond, c.cfg.Timing.Renew/2, c.cfg.Jitter()))
	}
}

// committed: attempt number beat took effect, so we led after it was sent. What was tried beside it named an older
// version and can have no effect any more.
func (c *campaign) committed(beat int64, v backends.Version) {
	a := c.tries[beat]
	clear(c.tries)
	c.mine = v
	c.promised = c.promised || a.promised
	c.beatWait.reset()
	c.lookWait.reset()
	c.at(evBeat, a.sent.Add(c.cfg.Timing.Renew))
	if c.state == over {
		return // it only keeps others waiting
	}
	now := c.Clock.Now()
	if c.armed && !now.Before(c.deadline.Term) {
		c.lapse(message{}) // TERM was sent for the old deadline (rule 7)
		return
	}
	c.extend(c.cfg.Timing.Deadline(a.sent))
	if c.state == waiting {
		c.tryStart()
	}
}

func (c *campaign) extend(d Deadline) {
	if !c.armed && !c.Clock.Now().Before(d.Term) {
		// Sent so long ago that it allows nothing. Nothing is armed, so nothing lapsed: the next one counts.
		c.promised = false
		c.beat()
		return
	}
	if c.armed {
		c.deadline = d
		c.Runner.Extend(c.token, d)
	} else {
		c.armed, c.deadline = true, d
		c.Runner.Arm(Term{
			Token: c.token, Store: c.entry.Store(), Crash: c.entry.Crash(), Deadline: d,
			Record: c.final0(), MayStart: c.mayStart,
		})
	}
	c.at(evLapse, d.Term)
}

// owned reads what became of a renewal that was refused.
func (c *campaign) owned(m message) {
	if !c.viewed(m) {
		return
	}
	v := m.view
	switch {
	case !v.Own, v.Record != nil && v.Record.Token != c.token:
		c.lose(m)
	case v.Record.Mine(c.token):
		if _, ok := c.tries[v.Record.Beat]; ok {
			c.committed(v.Record.Beat, v.Version)
			return
		}
		fallthrough
	default: // unreadable, or deleted by somebody: our entry is still first, so the record is ours to repair
		c.mine = v.Version
		c.beat()
	}
}

// keep keeps the entry's lease or session. It proves nothing, and its failure loses nothing.
func (c *campaign) keep(message) {
	every := c.entry.KeepEvery()
	if every <= 0 {
		return
	}
	entry := c.entry
	c.call(evKept, min(every, max(c.attempt(), time.Second)), func(ctx context.Context) message {
		return message{err: entry.Keep(ctx)}
	})
}

func (c *campaign) kept(m message) {
	every := c.entry.KeepEvery()
	switch {
	case m.err == nil:
		c.keepWait.reset()
		c.after(evKeep, every)
	case errors.Is(m.err, backends.ErrLost):
		c.handle(message{ev: evGone})
	default:
		c.log.Debug("lease not kept alive, trying again", "key", c.cfg.Candidate.Key, "err", m.err)
		c.after(evKeep, c.keepWait.next(50*time.Millisecond, every/2, c.cfg.Jitter()))
	}
}
