package election

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/boottime"
)

// enterTimeout bounds one attempt to enter: a dial, perhaps a login, and the entry. No deadline depends on it.
const enterTimeout = 2 * time.Second

// enter puts a new candidate into the queue.
func (c *campaign) enter() {
	c.gen++
	c.term = term{}
	c.ending = false
	c.nonce = c.cfg.Nonce()
	c.state = entering
	c.enterNow(message{})
}

// enterNow is one attempt. It keeps the nonce: a lost reply must not leave two entries (backends.Backend.Enter).
func (c *campaign) enterNow(message) {
	cand := c.cfg.Candidate
	cand.Nonce = c.nonce
	c.enterCancel = c.call(evEntered, max(c.attempt(), enterTimeout), func(ctx context.Context) message {
		entry, err := c.Backend.Enter(ctx, cand)
		if err != nil {
			return message{err: err}
		}
		memory, err := c.Host.Recall(entry.Store())
		if err != nil {
			c.log.Warn("cannot read what this host remembers", "err", err)
			memory = Memory{Token: -1} // something may have run here
		}
		return message{entry: entry, memory: memory}
	})
}

func (c *campaign) entered(m message) {
	c.enterCancel = nil
	switch {
	case errors.Is(m.err, backends.ErrUnavailable):
		c.unavailable(m.err)
		if c.cfg.Try {
			c.finish(m.err)
			return
		}
		c.after(evEnter, c.enterWait.next(100*time.Millisecond, 5*time.Second, c.cfg.Jitter()))
	case m.err != nil:
		c.finish(m.err)
	default:
		c.reached()
		c.entry, c.memory = m.entry, m.memory
		c.state = queued
		if every := c.entry.KeepEvery(); every > 0 {
			c.after(evKeep, every)
		}
		c.look()
	}
}

// enteredLate takes back an entry that was made while we decided to end.
func (c *campaign) enteredLate(m message) {
	if m.err != nil {
		c.left(message{})
		return
	}
	c.entry = m.entry
	c.leave()
}

// unavailable logs that the store cannot be reached: at once, then once a minute.
func (c *campaign) unavailable(err error) {
	now := c.Clock.Now()
	if c.unreachable == nil || now.Sub(c.warned) >= time.Minute {
		c.warned = now
		c.log.Warn("the store cannot be reached, trying again", "key", c.cfg.Candidate.Key, "err", err)
	}
	c.unreachable = err
}

func (c *campaign) reached() {
	if c.unreachable != nil {
		c.log.Info("the store can be reached again", "key", c.cfg.Candidate.Key)
	}
	c.unreachable = nil
	c.enterWait.reset()
}

// look reads the store. While a read is under way, another one is only noted: what it would see may be newer.
func (c *campaign) look() {
	c.off(evLook)
	if c.viewing {
		c.viewAgain = true
		return
	}
	c.viewing = true
	entry := c.entry
	c.call(evViewed, c.attempt(), func(ctx context.Context) message {
		v, err := entry.View(ctx)
		return message{view: v, err: err}
	})
}

func (c *campaign) lookNow(message) { c.look() }

// viewed does what every answer to look needs. It reports whether there is a view to act on.
func (c *campaign) viewed(m message) bool {
	c.viewing = false
	again := c.viewAgain
	c.viewAgain = false
	switch {
	case m.err == nil:
		c.reached()
		c.lookWait.reset()
	case errors.Is(m.err, backends.ErrLost):
		c.handle(message{ev: evGone})
		return false
	case errors.Is(m.err, backends.ErrUnavailable), c.state > acquiring:
		c.unavailable(m.err)
		c.after(evLook, c.lookWait.next(20*time.Millisecond, c.cfg.Timing.Renew, c.cfg.Jitter()))
		return false
	default:
		c.finish(m.err)
		return false
	}
	c.observe(m.view.Record, m.view.Version, m.view.Unreadable != nil)
	if again && c.state <= acquiring {
		// The view at hand is true of an earlier moment. If it says that we are first, the one that is under way will
		// say so too, and only one of them may act.
		c.look()
		return m.view.Place > 0
	}
	return true
}

// placed decides by our place in the queue.
func (c *campaign) placed(m message) {
	if !c.viewed(m) {
		return
	}
	v := m.view
	if !v.Own {
		c.entryGone(m)
		return
	}
	if v.Record != nil && v.Record.MinV > backends.FormatVersion {
		c.log.Error("the key is used by a later version of leaderrun", "key", c.cfg.Candidate.Key, "minv", v.Record.MinV)
		c.finish(ErrNewerFormat)
		return
	}
	c.token = v.Token
	first := !c.looked
	if first {
		c.looked, c.emptyAtEntry = true, v.Place == 0
	}
	if v.Foreign {
		c.foreign = true
	}
	c.place = v.Place
	if v.Place == 0 {
		c.head = nil
		c.off(evSilence, evLook)
		if v.Record.Mine(c.token) {
			c.resolve(v) // an attempt of ours took effect after its reply was lost
			return
		}
		c.acquire()
		return
	}
	c.behind(v.Head, first)
}

// behind waits for the entries before ours.
func (c *campaign) behind(head *backends.Head, first bool) {
	if c.head == nil || head == nil || c.head.Name != head.Name {
		c.headAt = c.Clock.Now()
	}
	c.head = head
	was := c.state
	c.state = queued
	if c.place == 1 {
		c.state = next
	}
	if c.state != was {
		c.entry.Observe(c.state == next && c.Backend.Properties().Evicts)
	}
	if first {
		c.sayWhoLeads()
	}
	if c.cfg.Try && (!c.Backend.Properties().Evicts || head != nil && head.Foreign) {
		c.finish(ErrNotElected)
		return
	}
	c.watchHead()
}

// watchHead sets the timers of whoever is not first.
func (c *campaign) watchHead() {
	c.off(evSilence)
	if !c.Backend.Properties().Evicts {
		return
	}
	if c.place > 1 {
		// The place in the delay keeps what a long queue asks of the store nearly constant (ARCHITECTURE.md, rule 9).
		c.after(evLook, c.perPlace())
	}
	if c.head == nil || c.head.Foreign {
		return // never evicted
	}
	if c.mayEvict() {
		c.at(evSilence, c.seenAt.Add(Slack(c.record.TTL)))
		return
	}
	ttl := c.head.TTL
	if c.record != nil {
		ttl = max(ttl, c.record.TTL)
	}
	if ttl <= 0 {
		ttl = MaxTTL
	}
	c.at(evSilence, c.seenAt.Later(c.headAt).Add(Slack(ttl)+c.perPlace()))
}

// mayEvict: we are next in line, and the head is the leader that the record speaks of (rule 8).
func (c *campaign) mayEvict() bool {
	return c.place == 1 && c.head != nil && !c.head.Foreign && c.record.Mine(c.head.Token)
}

func (c *campaign) perPlace() time.Duration {
	return time.Duration(c.place) * c.cfg.Timing.TTL / 5
}

// observe notes a version of the record when it is another than the last one, with the instant of its receipt.
func (c *campaign) observe(r *backends.Record, v backends.Version, unreadable bool) {
	if c.seenAny && v == c.seenVersion {
		return
	}
	if r != nil {
		c.known = r
	}
	c.seenAny, c.seenVersion, c.seenAt = true, v, c.Clock.Now()
	c.record, c.unreadable = r, unreadable
	c.versions++
}

// seen is a record that the watch saw.
func (c *campaign) seen(m message) {
	e := m.seen
	c.observe(e.Record, e.Version, e.Record == nil && e.Version != "")
	if c.state == acquiring {
		return // the answer, or the read after it, decides
	}
	if e.Record != nil && e.Record.MinV > backends.FormatVersion {
		c.look()
		return
	}
	if c.record.Mine(c.token) && c.token != 0 {
		c.look() // our eviction, whose reply was lost
		return
	}
	if c.cfg.Try && c.versions > 1 && c.mayEvict() && !c.record.Released {
		c.finish(ErrNotElected) // it lives
		return
	}
	c.watchHead()
}

// silence: nothing was heard of the head for so long that it is dead, or that its term is over by its own clock.
func (c *campaign) silence(message) {
	if c.mayEvict() {
		c.evict()
		return
	}
	entry, head, version := c.entry, *c.head, c.seenVersion
	c.log.Warn("removing a silent candidate", "key", c.cfg.Candidate.Key, "leader", head.ID, "token", head.Token)
	c.call(evRemoved, c.attempt(), func(ctx context.Context) message {
		return message{err: entry.Remove(ctx, head, version)}
	})
}

func (c *campaign) removed(m message) {
	if m.err != nil {
		c.log.Debug("the silent candidate was not removed", "key", c.cfg.Candidate.Key, "err", m.err)
		c.after(evLook, c.lookWait.next(20*time.Millisecond, c.cfg.Timing.Renew, c.cfg.Jitter()))
		return
	}
	c.look()
}

// entryGone: our place in the queue is lost, and nothing was held by it. A new one is needed.
func (c *campaign) entryGone(message) {
	c.log.Warn("the place in the queue was lost, entering again", "key", c.cfg.Candidate.Key)
	c.leave()
}

func (c *campaign) sayWhoLeads() {
	args := []any{"key", c.cfg.Candidate.Key, "id", c.cfg.Candidate.ID}
	switch {
	case c.foreign:
		args = append(args, "leader", "another program")
	case c.record != nil && !c.record.Released:
		args = append(args, "leader", c.record.ID, "host", c.record.Host, "since", c.record.Since, "token", c.record.Token)
	case c.head != nil:
		args = append(args, "leader", c.head.ID, "host", c.head.Host)
	}
	c.log.Info("waiting", args...)
}

func ends(s syscall.Signal) bool {
	switch s {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT:
		return true
	}
	return false
}

// signalEarly: there is nothing to hand back.
func (c *campaign) signalEarly(m message) {
	if !ends(m.signal.Num) {
		return
	}
	c.endEarly(&StoppedError{m.signal.Num})
}

func (c *campaign) endEarly(err error) {
	if c.state == entering && c.enterCancel != nil {
		c.final, c.err = true, err
		c.state = leaving // enteredLate takes back what comes
		c.enterCancel()
		return
	}
	c.finish(err)
}

// waitRanOut: --wait is over and no child was started.
func (c *campaign) waitRanOut(message) {
	err := ErrNotElected
	if c.unreachable != nil {
		err = c.unreachable
	}
	switch c.state {
	case acquiring:
		c.final, c.err, c.ending = true, err, true
	case waiting:
		c.final, c.err = true, err
		c.release()
	default:
		c.endEarly(err)
	}
}

// waitRanOutLate: it ran out in a moment at which there is something to finish first.
func (c *campaign) waitRanOutLate(message) {
	if !c.final && !c.begun {
		c.final, c.err = true, ErrNotElected
	}
}

// signalAcquiring: an answer is under way, and is short. Until it is here nobody knows what there is to give back.
func (c *campaign) signalAcquiring(m message) {
	if ends(m.signal.Num) {
		c.final, c.err, c.ending = true, &StoppedError{m.signal.Num}, true
	}
}

// at what instant something was tried, by the number of its beat.
type try struct {
	sent     boottime.Time
	mayStart boottime.Time
	promised bool // the record written owes a whole T
}
