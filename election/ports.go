package election

import (
	"context"
	"errors"
	"log/slog"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/boottime"
)

// Runner is what runs the child: the guard, seen from here. No method blocks, and each may be called only by the
// election's goroutine. What it must do by itself, with no help from the election: send TERM to the tree at
// Deadline.Term and kill it at Deadline.Kill, and refuse what comes after Deadline.Term has passed on its own clock.
// Calls whose token is not that of the armed term are ignored.
type Runner interface {
	// Arm says that a term was acquired, and what gives it back if this process dies. The child may not start yet.
	Arm(Term)
	// Begin starts the child, or reports Refused.
	Begin(token int64, d Deadline)
	// Extend moves the deadline, or reports Refused when TERM was sent for the old one.
	Extend(token int64, d Deadline)
	// Signal sends sig to the child.
	Signal(token int64, sig syscall.Signal)
	// Kill kills the whole tree at once. TreeGone follows.
	Kill(token int64)
	// Disarm says that the term was given back, or is not worth it any more.
	Disarm(token int64)
	// Events is where it reports. It loses nothing.
	Events() <-chan ChildEvent
}

// Term is what the guard must know of a term.
type Term struct {
	Token    int64
	Store    string // backends.Entry.Store
	Crash    backends.Crash
	Deadline Deadline

	// Record is what a crash release writes, completed by Final: MayStart is the instant from which nothing is owed to
	// a predecessor any more.
	Record   backends.Record
	MayStart boottime.Time
}

// Final is the record with which a term is given up at the instant now, with its tree dead: released, or, if the term
// was never allowed to start a child, what is still owed to its predecessors (ARCHITECTURE.md, rule 4).
func (t Term) Final(begun bool, now boottime.Time) backends.Record {
	r := t.Record
	r.Beat++
	r.Owe = 0
	if !begun {
		r.Owe = max(t.MayStart.Sub(now), 0)
	}
	r.Released = r.Owe == 0
	return r
}

// ChildEvent is what a Runner reports.
type ChildEvent struct {
	Kind   ChildEventKind
	Token  int64
	PID    int    // with ChildStarted
	Status Status // with ChildExited
	Err    error  // with ChildFailed
}

// ChildEventKind is the kind of a ChildEvent.
type ChildEventKind int

// What a Runner reports.
const (
	ChildStarted ChildEventKind = iota + 1
	ChildFailed                 // it could not be started; TreeGone does not follow
	ChildExited                 // what it left behind is being killed; TreeGone follows
	ChildLapsed                 // TERM was sent because the deadline came; TreeGone follows
	ChildRefused                // Begin or Extend came too late; TreeGone follows
	TreeGone                    // no process of the term is left
	GuardDied                   // the guard is gone; TreeGone came before
)

// Status is how a child ended: by itself with a code, or by a signal.
type Status struct {
	Code   int
	Signal syscall.Signal // 0: it exited
}

// Success reports whether the child exited with 0.
func (s Status) Success() bool { return s.Signal == 0 && s.Code == 0 }

// Host is what is known on this host, for every store and key. Its methods may block on the disk.
type Host interface {
	// Recall returns what is remembered of a key; Token 0 if it was never seen.
	Recall(store string) (Memory, error)
	// Prepare makes the host ready for a term: it refuses a token that is not above the remembered one with
	// ErrStaleToken (the store was restored from a backup), kills and waits for what is left of earlier terms, and
	// remembers the new one.
	Prepare(ctx context.Context, store string, token int64, ttl time.Duration) error
	// Ended remembers that no process of the term is left.
	Ended(store string, token int64)
}

// Memory is what a host remembers of a key.
type Memory struct {
	Token int64         // the highest that was ever started here
	TTL   time.Duration // its T
}

// Clock is the boot clock. A *Timer belongs to one goroutine.
type Clock interface {
	Now() boottime.Time
	NewTimer() (Timer, error)
}

// Timer is boottime.Timer.
type Timer interface {
	C() <-chan struct{}
	Set(at boottime.Time)
	Close() error
}

// Signal is a signal that this process got. Group says that the child, in the same process group, got it as well.
type Signal struct {
	Num   syscall.Signal
	Group bool
}

// Policy on what follows a child's end, and a lost lease.
type (
	Restart int
	OnLoss  int
)

// The policies.
const (
	RestartNever Restart = iota
	RestartOnFailure
	RestartAlways
)

const (
	LossExit OnLoss = iota
	LossCampaign
)

// Config is one campaign. Validate it.
type Config struct {
	Candidate backends.Candidate // without Nonce; TTL is taken from Timing
	Timing    Timing

	ForeignWait time.Duration // after a holder that is not leaderrun vanished
	Try         bool          // do not wait for a living leader
	Wait        time.Duration // give up after it; 0: never
	Hold        time.Duration // lead at least this long from the first start
	OnLoss      OnLoss
	Restart     Restart
	StopTimeout time.Duration // from our own TERM to KILL; 0: none

	Nonce  func() string  // a new random name for each entry
	Jitter func() float64 // uniform in [0,1)
	Log    *slog.Logger
}

// Validate checks the key and all durations.
func (c *Config) Validate() error {
	if err := backends.CheckKey(c.Candidate.Key); err != nil {
		return err
	}
	if err := c.Timing.Validate(); err != nil {
		return err
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"foreign-wait", c.ForeignWait}, {"wait", c.Wait}, {"hold", c.Hold}, {"stop-timeout", c.StopTimeout}} {
		if d.d < 0 {
			return &TimingError{d.name + " " + d.d.String() + " is negative"}
		}
	}
	return nil
}

// Ports is the world around an election.
type Ports struct {
	Backend backends.Backend
	Runner  Runner
	Host    Host
	Clock   Clock
	Signals <-chan Signal // may be nil
}

// Result is how a campaign ended.
type Result struct {
	Ran    bool   // a child was started, and Status is how it ended
	Status Status //
}

// How a campaign ends, other than with the child's own end.
var (
	ErrNotElected  = errors.New("not elected")
	ErrLeaseLost   = errors.New("the lease was lost and the command was stopped")
	ErrStaleToken  = errors.New("the store gave out a fencing token that is not above the last one started here")
	ErrNewerFormat = errors.New("the key is used by a later version of leaderrun")
)

// StoppedError says that a signal ended the campaign before a child was started.
type StoppedError struct{ Signal syscall.Signal }

func (e *StoppedError) Error() string { return "stopped by signal: " + e.Signal.String() }

// StartError says that the command could not be started.
type StartError struct{ Err error }

func (e *StartError) Error() string { return "cannot start the command: " + e.Err.Error() }
func (e *StartError) Unwrap() error { return e.Err }
