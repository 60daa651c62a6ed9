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

	term     election.Term
	unusable error // the guard cannot be told what to run

	mu    sync.Mutex
	guard guard
	gone  bool  // it has said its last
	token int64 // the armed term, 0 if there is none

	out     chan election.ChildEvent
	closed  chan struct{}
	readers sync.WaitGroup
}

// newRunner takes over a guard that was started before. Close ends it.
func newRunner(g guard, start func() (guard, error), command exec.Command, log *slog.Logger) *runner {
	r := &runner{start: start, command: command, log: log, out: make(chan election.ChildEvent), closed: make(chan struct{})}
	r.use(g, 0)
	return r
}

func (r *runner) use(g guard, token int64) {
	r.mu.Lock()
	r.guard, r.gone, r.token = g, false, token
	r.mu.Unlock()
	r.unusable = nil
	if err := g.Prepare(r.command); !errors.Is(err, exec.ErrGuardGone) {
		r.unusable = err
	}
	r.readers.Go(func() { r.read(g) })
}

// read translates one guard's events. The guard queues what is not read, so waiting for the election loses nothing.
func (r *runner) read(g guard) {
	for {
		select {
		case e, ok := <-g.Events():
			switch {
			case !ok:
				return
			case e.Kind == exec.GuardDied:
				r.died(g, e)
				return // the last one
			}
			r.translate(e)
		case <-r.closed:
			return
		}
	}
}

// died says of the term that is armed now that its guard, and any process, is gone: the guard may have died before it
// heard of that term. Arm and died exclude each other, so a term either has a guard that was not dead yet, or is
// reported here.
func (r *runner) died(g guard, e exec.Event) {
	r.mu.Lock()
	if r.guard != g {
		r.mu.Unlock()
		return // replaced
	}
	r.gone = true
	token := r.token
	r.mu.Unlock()
	if token == 0 {
		r.log.Debug("the guard died while there was no term", "err", e.Err)
		return // the next term gets a new one
	}
	r.log.Error("the guard died", "token", token, "err", e.Err)
	r.lost(token, e.Err)
}

// lost tells the election that a term has neither guard nor process.
func (r *runner) lost(token int64, err error) {
	r.send(election.ChildEvent{Kind: election.TreeGone, Token: token})
	r.send(election.ChildEvent{Kind: election.GuardDied, Token: token, Err: err})
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
	if err := r.arm(t); err != nil && !errors.Is(err, exec.ErrGuardGone) {
		r.log.Error("no guard for the command", "token", t.Token, "err", err)
		// Not here: the election, which calls, is who listens.
		r.readers.Go(func() { r.lost(t.Token, err) })
	}
}

func (r *runner) arm(t election.Term) error {
	crash, err := r.crash(t)
	if err != nil {
		return err
	}
	r.mu.Lock()
	old := r.guard
	dead := r.gone || !old.Alive()
	if !dead {
		r.token = t.Token
	}
	r.mu.Unlock()
	if dead {
		g, err := r.start()
		if err != nil {
			return err
		}
		r.use(g, t.Token)
		_ = old.Close() // frees what it left
	}
	return r.guard.Arm(exec.Term{Token: t.Token, Crash: crash, Files: t.Crash.Files, Deadline: deadline(t.Deadline)})
}

// Begin starts the command.
func (r *runner) Begin(token int64, d election.Deadline) {
	err := r.unusable
	if err == nil {
		err = r.guard.Begin(token, deadline(d), r.env(r.term.Store, token))
	}
	if err != nil && !errors.Is(err, exec.ErrGuardGone) {
		r.readers.Go(func() { r.send(election.ChildEvent{Kind: election.ChildFailed, Token: token, Err: err}) })
	}
}

// In the following calls a guard that is gone is no news: died reports it.

// Extend moves the deadline.
func (r *runner) Extend(token int64, d election.Deadline) { _ = r.guard.Extend(token, deadline(d)) }

// Signal passes a signal on.
func (r *runner) Signal(token int64, sig syscall.Signal) { _ = r.guard.Signal(token, sig) }

// Kill kills the tree.
func (r *runner) Kill(token int64) { _ = r.guard.Kill(token) }

// Disarm makes the guard forget the term.
func (r *runner) Disarm(token int64) {
	r.mu.Lock()
	r.token = 0
	r.mu.Unlock()
	_ = r.guard.Disarm(token)
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
