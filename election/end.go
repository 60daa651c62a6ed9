package election

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// lapse: the deadline came. The guard sends TERM, then KILL, by its own clock. Never extended again (rule 7).
func (c *campaign) lapse(message) {
	c.log.Error("the lease ran out, stopping", "key", c.cfg.Candidate.Key, "token", c.token)
	c.fail()
	c.off(evLapse, evStop, evRestart, evHold, evStart)
	c.state = over
	if c.armed && !c.begun {
		return // the guard says TreeGone for a term that never started anything, too
	}
	if !c.running {
		c.release()
	}
}

// fail notes why the term ends, unless the child had ended by itself before and was not to be started again.
func (c *campaign) fail() {
	c.lapsed = c.running && !c.childDone || !c.due[evRestart].IsZero()
	if c.lapsed && !c.final {
		c.err = ErrLeaseLost
		c.final = c.cfg.OnLoss == LossExit || c.stopped != 0
	} else if c.begun {
		c.final = true
	}
}

// lose: the lease is definitely another's. KILL at once, nothing to wait for (rule 6).
func (c *campaign) lose(message) {
	c.log.Error("the lease was lost", "key", c.cfg.Candidate.Key, "token", c.token)
	c.fail()
	c.off(evLapse, evStop, evRestart, evHold, evStart, evBeat)
	if !c.running {
		c.Runner.Disarm(c.token)
		c.leave()
		return
	}
	c.state = lost
	c.Runner.Kill(c.token)
}

// treeGone: no process of the term is left.
func (c *campaign) treeGone(m message) {
	if m.ev == evGuardDied {
		c.guardDied()
		return
	}
	was := c.running
	c.running = false
	switch c.state {
	case leading, draining:
		if !c.childDone {
			c.childDone, c.result.Ran = true, true
			c.result.Status = Status{Signal: syscall.SIGKILL}
		}
		if was {
			c.childEnded()
		}
	case lost:
		c.Runner.Disarm(c.token)
		c.rememberEnd()
		c.leave()
	case over:
		c.release()
	}
}

// guardDied: somebody killed the guard. Its tree is gone; nothing can be started with it any more.
func (c *campaign) guardDied() {
	if c.state == leading && !c.running {
		c.final = true
		c.release()
	}
}

// guardGone, before anything was started: the guard gave up the term, or died.
func (c *campaign) guardGone(message) { c.release() }

// childEnded decides whether the child runs again, whether the term is held, or given back.
func (c *campaign) childEnded() {
	now := c.Clock.Now()
	again := c.cfg.Restart == RestartAlways || c.cfg.Restart == RestartOnFailure && !c.result.Status.Success()
	if c.state == leading && again {
		if now.Sub(c.ranSince) >= time.Minute {
			c.restarts.reset()
		}
		wait := c.restarts.next(200*time.Millisecond, 30*time.Second, c.cfg.Jitter())
		c.log.Info("starting again", "key", c.cfg.Candidate.Key, "wait", wait)
		c.at(evRestart, now.Add(wait))
		return
	}
	if until := c.began.Add(c.cfg.Hold); c.state == leading && now.Before(until) {
		c.log.Info("ended early, holding the lease", "key", c.cfg.Candidate.Key, "wait", until.Sub(now))
		c.at(evHold, until)
		return
	}
	c.final = true
	c.release()
}

// restart starts the child again in the same term, if the deadline leaves room; else the timers decide.
func (c *campaign) restart(message) {
	if c.Clock.Now().Before(c.deadline.Term) {
		c.begin()
	}
}

func (c *campaign) held(message) {
	c.final = true
	c.release()
}

// release gives the term back, after the tree is gone.
func (c *campaign) release() {
	c.off(evLapse, evStop, evRestart, evHold, evStart, evBeat, evLook, evWait)
	c.state = releasing
	// After the deadline nobody waits for a release any more: the successor's silence is over.
	c.at(evGiveUp, c.deadline.End.Later(c.Clock.Now().Add(2*c.attempt())))
	c.releaseNow(message{})
}

// final0 is the record that Final completes.
func (c *campaign) final0() backends.Record {
	cand := c.cfg.Candidate
	r := backends.Record{
		V: backends.FormatVersion, MinV: backends.FormatVersion,
		ID: cand.ID, Host: cand.Host, PID: cand.PID, Boot: cand.Boot,
		Token: c.token, TTL: c.cfg.Timing.TTL, Beat: c.beats, Since: c.since,
	}
	if c.known != nil {
		r.Extra = c.known.Extra
	}
	return r
}

func (c *campaign) releaseNow(message) {
	t := Term{Record: c.final0(), MayStart: c.mayStart}
	r := t.Final(c.begun, c.Clock.Now())
	entry, seen := c.entry, c.mine
	c.call(evReleased, c.attempt(), func(ctx context.Context) message {
		return message{err: entry.Release(ctx, r, seen)}
	})
}

func (c *campaign) released(m message) {
	switch {
	case m.err == nil:
		c.log.Info("released", "key", c.cfg.Candidate.Key, "token", c.token)
	case errors.Is(m.err, backends.ErrLost):
		// Another's by now; there is nothing to give back.
	case errors.Is(m.err, backends.ErrConflict):
		c.look()
		return
	case errors.Is(m.err, backends.ErrUnavailable):
		c.after(evRelease, c.relWait.next(10*time.Millisecond, c.cfg.Timing.Renew/2, c.cfg.Jitter()))
		return
	default:
		c.log.Warn("the term could not be given back", "key", c.cfg.Candidate.Key, "token", c.token, "err", m.err)
	}
	c.givenBack()
}

// releaseViewed reads why a release was refused: most often a renewal of ours was under way.
func (c *campaign) releaseViewed(m message) {
	c.viewing = false
	v := m.view
	switch {
	case errors.Is(m.err, backends.ErrLost), m.err == nil && (!v.Own || v.Record != nil && v.Record.Token != c.token):
		c.givenBack()
	case m.err != nil:
		c.after(evLook, c.relWait.next(10*time.Millisecond, c.cfg.Timing.Renew/2, c.cfg.Jitter()))
	default:
		c.mine = v.Version
		c.releaseNow(m)
	}
}

func (c *campaign) giveUp(message) {
	c.log.Warn("the term could not be given back in time; the next leader has to wait for it", "key", c.cfg.Candidate.Key, "token", c.token)
	c.givenBack()
}

func (c *campaign) givenBack() {
	c.off(evGiveUp, evRelease, evLook)
	c.Runner.Disarm(c.token)
	c.rememberEnd()
	c.leave()
}

func (c *campaign) rememberEnd() {
	if c.prepared {
		c.Host.Ended(c.entry.Store(), c.token)
	}
}

// leave withdraws the entry.
func (c *campaign) leave() {
	c.off(evKeep, evLook, evSilence, evBeat, evLapse, evStart, evEnter)
	c.state = leaving
	entry := c.entry
	c.call(evLeft, max(c.attempt(), time.Second), func(ctx context.Context) message {
		return message{err: entry.Leave(ctx)}
	})
}

// left: what comes next.
func (c *campaign) left(m message) {
	if m.err != nil {
		c.log.Debug("withdrawing", "key", c.cfg.Candidate.Key, "err", m.err)
	}
	if c.stopped != 0 && !c.final {
		c.final = true
		if c.err == nil {
			c.err = &StoppedError{c.stopped}
		}
	}
	if c.final {
		c.state = done
		return
	}
	c.err = nil
	wait := c.enterWait.next(50*time.Millisecond, 5*time.Second, c.cfg.Jitter())
	c.gen++
	c.term = term{}
	c.nonce = c.cfg.Nonce()
	c.state = entering
	c.after(evEnter, wait)
}

// signalEnding: the tree is being killed already. Only what follows is up to the signal.
func (c *campaign) signalEnding(m message) {
	if ends(m.signal.Num) {
		c.stopped, c.final = m.signal.Num, true
	}
}

// signalReleasing: the first one ends the campaign after the release; a second TERM does not wait for it.
func (c *campaign) signalReleasing(m message) {
	if !ends(m.signal.Num) {
		return
	}
	if c.stopped != 0 && m.signal.Num == syscall.SIGTERM {
		c.giveUp(m)
		return
	}
	c.stopped = m.signal.Num
}
