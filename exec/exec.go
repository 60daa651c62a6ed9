// Package exec owns the guard and the child: it starts a command, keeps its deadline, and proves that its whole process
// tree is gone. It knows deadlines; it knows nothing of leases, stores or elections.
//
// Three processes of the same binary work together:
//
//	leaderrun            calls Start first thing; decides
//	  ├─ guard             started by Start, before flags are parsed; owns the child and enforces the deadline
//	  │    └─ child          the command, and whatever it starts
//	  └─ sentinel          only with a controlling terminal: tells signals to the group from signals to leaderrun
//
// The guard kills the tree by itself when a deadline passes or when leaderrun dies: it needs no answer from a leaderrun
// that is stopped, starved or dead. leaderrun does the same when the guard dies or is late. Kernel timers wake (SIGCONT)
// or end (SIGKILL) whichever of the two is stopped. So the tree is gone by Deadline.End whichever of our processes is
// killed or stopped, grandchildren with sessions of their own and daemons too.
//
// What it does not promise, on Linux: anything about a process in an uninterruptible system call, one that we may not
// signal (setuid), or the grandchildren when leaderrun and guard are killed within about a millisecond of each other;
// Sweep is for those. Elsewhere the guarantees are weaker: see the comments in the files *_other.go.
//
// This package has the only init function of the program: a process that is to be guard or sentinel never gets to main
// (ARCHITECTURE.md G2), except that the guard returns from it when there is a term to be handed back: see Crashed.
package exec

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/boottime"
)

// ErrGuardGone is what the methods of a Guard return once the guard is dead or was closed. Start makes a new one.
var ErrGuardGone = errors.New("exec: the guard is gone")

// Deadline is the end of a term, on the boot clock: TERM goes to the tree at Term, KILL at Kill, and it is gone by End.
// Half-way between Kill and End the second line acts: leaderrun kills guard and tree, and the kernel kills the guard.
type Deadline struct{ Term, Kill, End boottime.Time }

// last is the instant at which whoever still lives stops trusting the guard.
func (d Deadline) last() boottime.Time { return d.Kill.Add(d.End.Sub(d.Kill) / 2) }

// Command is what the guard will run.
type Command struct {
	Path string   // of the program, as LookPath found it
	Args []string // with argv[0], as given
	Env  []string // the full environment, "NAME=value"
}

// Term is what the guard needs to hand a term back if leaderrun cannot.
type Term struct {
	Token int64
	Crash []byte // opaque; may hold secrets, so it stays in memory

	// Files are held by the guard as well, until Disarm or until it exits; the child never has them. They may be closed
	// as soon as Arm returns.
	Files    []*os.File
	Deadline Deadline
}

// CrashReport is what a guard brings to main when leaderrun died, or was stopped past the end of its term. The tree is
// gone.
type CrashReport struct {
	Token    int64
	Crash    []byte
	Files    []*os.File
	Begun    bool     // a child was started in this term, or may have been
	Deadline Deadline // the last one that the guard was given
}

// Event is what happened to guard and child.
type Event struct {
	Kind     Kind
	Token    int64
	PID      int             // Started, Exited: the child's
	Status   unix.WaitStatus // Exited: the child's
	Err      error           // StartFailed: a syscall.Errno; Refused, GuardDied: why
	Deadline Deadline        // Acked: the one that is in force
}

// Kind is the kind of an Event.
type Kind int

// The kinds of events. Gone follows each of Exited, StartFailed, Lapsed, Refused and Kill, at once when there is no
// process; with it no process of the tree is left, which the kernel confirmed.
const (
	Started     Kind = iota + 1 // the child runs
	StartFailed                 // the child could not be executed
	Exited                      // the child ended; what it left behind is being killed
	Lapsed                      // the instant Term passed: TERM was sent, this term is over
	Refused                     // what was asked came too late, or for another term
	Acked                       // the guard has the deadline of Arm or Extend
	Gone                        // no process of the tree is left
	Stalled                     // the guard did not answer for a while and was sent SIGCONT: it had been stopped, or starves
	GuardDied                   // the guard is dead, the tree too; the last event
)

func (k Kind) String() string {
	names := [...]string{"", "started", "start failed", "exited", "lapsed", "refused", "acked", "gone", "stalled", "guard died"}
	if k < Started || int(k) >= len(names) {
		return "unknown"
	}
	return names[k]
}

// pause is how long a kill loop sleeps before its next round. The first rounds follow closely, since a tree usually
// needs one or two; a process in an uninterruptible call is not worth a busy processor.
func pause(round int) time.Duration {
	switch {
	case round < 50:
		return 100 * time.Microsecond
	case round < 300:
		return time.Millisecond
	}
	return 10 * time.Millisecond
}
