package election

import (
	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/boottime"
)

// owedUntil is the instant, on this clock, from which nothing is owed to any predecessor any more. The record at hand is
// the one that the acquisition will name by its version; it was first received at seenAt (rules 2 to 4, 13, 14, 20).
func (c *campaign) owedUntil() boottime.Time {
	now := c.Clock.Now()
	until := now
	switch {
	case c.unreadable && c.known != nil:
		// What this process saw of that term before.
		until = c.seenAt.Add(Slack(max(c.known.TTL, c.known.Owe)))
	case c.unreadable:
		c.log.Error("the record cannot be read; waiting the longest that it can owe, then writing it anew",
			"key", c.cfg.Candidate.Key, "wait", MaxTTL)
		until = c.seenAt.Add(Slack(MaxTTL))
	case c.record == nil && c.emptyAtEntry && c.memory.Token == 0 && !c.foreign && c.known == nil:
		// A key that nobody ever used.
	case c.record == nil:
		wait := max(c.cfg.Timing.TTL, c.memory.TTL)
		if c.known != nil {
			wait = max(wait, c.known.TTL, c.known.Owe)
		}
		until = c.seenAt.Add(Slack(wait))
	case c.record.Released && c.record.Owe == 0:
	default:
		until = c.seenAt.Add(Slack(c.record.Owe))
	}
	if c.foreign {
		// It vanished before this read.
		until = until.Later(now.Add(Slack(c.cfg.ForeignWait)))
	}
	return until.Later(now)
}

// write is the record to be written now, and what has to be known if it takes effect. What is owed to predecessors is
// carried on, and shrinks with time; from the moment that we may start, it is our own T.
func (c *campaign) write(mayStart boottime.Time) (backends.Record, int64, try) {
	now := c.Clock.Now()
	c.beats++
	cand := c.cfg.Candidate
	r := backends.Record{
		V: backends.FormatVersion, MinV: backends.FormatVersion,
		ID: cand.ID, Host: cand.Host, PID: cand.PID, Boot: cand.Boot,
		Token: c.token, TTL: c.cfg.Timing.TTL, Owe: c.cfg.Timing.TTL, Beat: c.beats, Since: c.since,
	}
	if c.known != nil {
		r.Extra = c.known.Extra
	}
	a := try{sent: now, mayStart: mayStart, promised: true}
	if now.Before(mayStart) {
		r.Owe, a.promised = mayStart.Sub(now), false
	}
	if c.tries == nil {
		c.tries = make(map[int64]try)
	}
	c.tries[c.beats] = a
	return r, c.beats, a
}
