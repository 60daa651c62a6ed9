package election

import (
	"fmt"
	"io"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/boottime"
)

// Bounds of the TTL and of the margin, and the slack that a waiter adds to what it is owed.
const (
	MinTTL    = time.Second
	MaxTTL    = backends.MaxTTL
	MinMargin = 100 * time.Millisecond

	// slackFixed and slackParts are the waiter's allowance for clocks whose rates differ by up to 1 %, and for the
	// granularity of timers (ARCHITECTURE.md, "Words").
	slackFixed = 100 * time.Millisecond
	slackParts = 100
)

// Timing is the time line of a term. Zero fields are filled by WithDefaults.
type Timing struct {
	TTL    time.Duration // T: what a successor waits after the last renewal that it saw
	Renew  time.Duration // h: from one renewal to the next
	Grace  time.Duration // g: from TERM to KILL
	Margin time.Duration // m: from KILL to the deadline
}

// WithDefaults returns t with h = T/5, g = T/5 and m = T/10 (at least 100 ms) where they are zero, and T = 10 s.
func (t Timing) WithDefaults() Timing {
	if t.TTL == 0 {
		t.TTL = 10 * time.Second
	}
	if t.Renew == 0 {
		t.Renew = t.TTL / 5
	}
	if t.Grace == 0 {
		t.Grace = t.TTL / 5
	}
	if t.Margin == 0 {
		t.Margin = max(t.TTL/10, MinMargin)
	}
	return t
}

// Validate checks every relation between the durations, each by its name. It is the only place that does.
func (t Timing) Validate() error {
	hint := fmt.Sprintf("with --ttl %v the defaults are --renew %v --grace %v --margin %v",
		t.TTL, t.TTL/5, t.TTL/5, max(t.TTL/10, MinMargin))
	if t.TTL < MinTTL || t.TTL > MaxTTL {
		hint = "--ttl 10s is the default; the other durations follow from it"
	}
	check := func(ok bool, format string, args ...any) error {
		if ok {
			return nil
		}
		return backends.WithHint(&TimingError{fmt.Sprintf(format, args...)}, hint)
	}
	for _, err := range []error{
		check(t.TTL >= MinTTL && t.TTL <= MaxTTL, "ttl %v is not between %v and %v", t.TTL, MinTTL, MaxTTL),
		check(t.Renew > 0, "renew %v is not positive", t.Renew),
		check(t.Renew <= t.TTL/3, "renew %v is more than a third of ttl %v", t.Renew, t.TTL),
		check(t.Grace >= 0, "grace %v is negative", t.Grace),
		check(t.Margin >= MinMargin, "margin %v is less than %v", t.Margin, MinMargin),
		check(3*t.Renew+t.Grace+t.Margin <= t.TTL, "3 x renew %v + grace %v + margin %v = %v is more than ttl %v",
			t.Renew, t.Grace, t.Margin, 3*t.Renew+t.Grace+t.Margin, t.TTL),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// TimingError says which relation between durations does not hold.
type TimingError struct{ relation string }

func (e *TimingError) Error() string { return "impossible durations: " + e.relation }

// Attempt is the time-out of one attempt at the store: two servers can fail inside one h.
func (t Timing) Attempt() time.Duration { return t.Renew / 2 }

// Deadline is until when a child may run, counted from when the renewal that allows it was sent.
func (t Timing) Deadline(sent boottime.Time) Deadline {
	end := sent.Add(t.TTL)
	return Deadline{Term: end.Add(-t.Margin - t.Grace), Kill: end.Add(-t.Margin), End: end}
}

// Deadline holds the three instants of a term that is not renewed: TERM to the tree, KILL, and E, at which it is dead.
type Deadline struct{ Term, Kill, End boottime.Time }

// Slack is how long a waiter waits, on its own clock, for somebody else's d to be over.
func Slack(d time.Duration) time.Duration { return d + d/slackParts + slackFixed }

// Explain writes the time line for people, as --explain-timing prints it.
func (t Timing) Explain(w io.Writer) error {
	d := t.Deadline(0)
	_, err := fmt.Fprintf(w, `A renewal is sent at 0 and succeeds. If none succeeds after it:

  %9v  the next renewal, then one every %v (an attempt may take %v,
             and is repeated at once when it fails)
  %9v  the command and all that it started get TERM
  %9v  what is left of them gets KILL
  %9v  the deadline: all of them are dead
  %9v  at the earliest a successor's command starts

ttl %v, renew %v, grace %v, margin %v
3 x renew + grace + margin = %v, at most ttl: three renewals can fail in a row
`, t.Renew, t.Renew, t.Attempt(), time.Duration(d.Term), time.Duration(d.Kill), time.Duration(d.End), Slack(t.TTL),
		t.TTL, t.Renew, t.Grace, t.Margin, 3*t.Renew+t.Grace+t.Margin)
	return err
}
