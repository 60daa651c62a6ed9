package cmd

import (
	"errors"
	"log/slog"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/election"
	"github.com/leaderrun/leaderrun/exec"
)

// guard is what the runner needs of an exec.Guard.
type guard interface {
	Events() <-chan exec.Event
	Alive() bool
	Prepare(exec.Command) error
	Arm(exec.Term) error
	Begin(token int64, d exec.Deadline, env []string) error
	Extend(token int64, d exec.Deadline) error
	Signal(token int64, sig unix.Signal) error
	Kill(token int64) error
	Disarm(token int64) error
	Close() error
}

// runner is the guard as the election sees it. A guard that died is replaced when the next term is acquired. The methods
// of election.Runner belong to the election's goroutine.
type runner struct {
	start   func() (guard, error)
	command exec.Command
	env     func(store string, token int64) []string // of one term
	crash   func(election.Term) ([]byte, error)      // what the guard brings back if we die
	log     *slog.Logger

	guard   guard
	term    election.Term
	out     chan election.ChildEvent
	closed  chan struct{}
	readers sync.WaitGroup
}

// newRunner takes over a guard that was started before. Close ends it.
func newRunner(g guard, start func() (guard, error), command exec.Command, log *slog.Logger) *runner {
	r := &runner{start: start, command: command, log: log, out: make(chan election.ChildEvent), closed: make(chan struct{})}
	r.use(g)
	return r
}

func (r *runner) use(g guard) {
	r.guard = g
	if err := g.Prepare(r.command); err != nil {
		r.log.Debug("the guard does not answer", "err", err) // Arm will replace it
	}
	r.readers.Go(func() { r.read(g.Events()) })
}

// read translates one guard's events. The guard queues what is not read, so waiting for the election loses nothing.
func (r *runner) read(events <-chan exec.Event) {
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return
			}
			r.translate(e)
			if e.Kind == exec.GuardDied {
				return // the last one
			}
		case <-r.closed:
			return
		}
	}
}

func (r *runner) translate(e exec.Event) {
	c := election.ChildEvent{Token: e.Token, PID: e.PID, Err: e.Err}
	switch e.Kind {
	case exec.Started:
		c.Kind = election.ChildStarted
	case exec.StartFailed:
		c.Kind = election.ChildFailed
	case exec.Exited:
		c.Kind = election.ChildExited
		c.Status = election.Status{Code: e.Status.ExitStatus()}
		if e.Status.Signaled() {
			c.Status = election.Status{Signal: e.Status.Signal()}
		}
	case exec.Lapsed:
		c.Kind = election.ChildLapsed
	case exec.Refused:
		c.Kind = election.ChildRefused
	case exec.Gone:
		c.Kind = election.TreeGone
	case exec.GuardDied:
		c.Kind = election.GuardDied
		r.log.Error("the guard died", "token", e.Token, "err", e.Err)
	case exec.Stalled:
		r.log.Warn("the guard did not answer and was woken", "token", e.Token)
		return
	default: // Acked: nothing follows from it
		return
	}
	r.send(c)
}

func (r *runner) send(c election.ChildEvent) {
	select {
	case r.out <- c:
	case <-r.closed:
	}
}

// Events is where the election listens.
func (r *runner) Events() <-chan election.ChildEvent { return r.out }

// Arm hands a new term to the guard, or to a new guard.
func (r *runner) Arm(t election.Term) {
	r.term = t
	if !r.guard.Alive() {
		g, err := r.start()
		if err != nil {
			r.failed(t.Token, err)
			return
		}
		_ = r.guard.Close() // frees what it left; it is dead
		r.use(g)
	}
	crash, err := r.crash(t)
	if err != nil {
		r.failed(t.Token, err)
		return
	}
	err = r.guard.Arm(exec.Term{Token: t.Token, Crash: crash, Files: t.Crash.Files, Deadline: deadline(t.Deadline)})
	r.check(t.Token, err)
}

// Begin starts the command.
func (r *runner) Begin(token int64, d election.Deadline) {
	r.check(token, r.guard.Begin(token, deadline(d), r.env(r.term.Store, token)))
}

// Extend moves the deadline.
func (r *runner) Extend(token int64, d election.Deadline) {
	r.check(token, r.guard.Extend(token, deadline(d)))
}

// Signal passes a signal on.
func (r *runner) Signal(token int64, sig syscall.Signal) {
	r.check(token, r.guard.Signal(token, sig))
}

// Kill kills the tree.
func (r *runner) Kill(token int64) { r.check(token, r.guard.Kill(token)) }

// Disarm makes the guard forget the term.
func (r *runner) Disarm(token int64) { r.check(token, r.guard.Disarm(token)) }

// check looks at the answer of a call. A guard that is gone says so by its last event; anything else is reported as if
// it were, since nobody can rely on such a guard.
func (r *runner) check(token int64, err error) {
	if err == nil || errors.Is(err, exec.ErrGuardGone) {
		return
	}
	r.failed(token, err)
}

// failed reports that there is no guard for a term. It must not block: the election, which calls it, is who listens.
func (r *runner) failed(token int64, err error) {
	r.log.Error("no guard for the command", "token", token, "err", err)
	r.readers.Go(func() { r.send(election.ChildEvent{Kind: election.GuardDied, Token: token, Err: err}) })
}

// Close ends the guard, and with it whatever is left of a tree.
func (r *runner) Close() error {
	close(r.closed)
	err := r.guard.Close()
	r.readers.Wait()
	return err
}

func deadline(d election.Deadline) exec.Deadline {
	return exec.Deadline{Term: d.Term, Kill: d.Kill, End: d.End}
}
