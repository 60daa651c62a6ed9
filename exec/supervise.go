package exec

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/boottime"
)

// supervisor is leaderrun's side of the guard: one goroutine owns all of this. It reaps this process's children, hands
// the guard's reports on, and does the guard's work when the guard is dead or late.
type supervisor struct {
	*Guard
	token    int64 // of the last Arm
	deadline Deadline
	busy     bool // from Begin on until Gone: processes may be there
	child    int  // as Started named it, until Exited

	asked      boottime.Time // when the oldest unanswered question was put
	unanswered int
	wait       time.Duration // how long an answer may take

	tree    tree
	killing bool  // guard and tree are being killed
	reaped  bool  // the guard is dead and waited for: its number is free
	ended   bool  // its end of the socket is closed
	none    bool  // no child is left
	empty   bool  // no process of the tree is left
	cause   error // why the guard is gone, if it said so
}

// supervise runs until the guard is dead and the tree with it.
func (g *Guard) supervise() {
	s := &supervisor{Guard: g}
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	children <- unix.SIGCHLD // what ended before is nobody's yet
	closing := g.closing
	for !s.finished() {
		g.timer.Set(s.next())
		var again <-chan time.Time
		if s.killing {
			again = time.After(pause(s.tree.round))
		}
		select {
		case r := <-g.requests:
			s.request(r)
		case m, ok := <-g.incoming:
			s.receive(m, ok)
		case <-closing:
			closing = nil
			s.kill()
		case <-children:
		case <-g.timer.C():
			s.due()
		case <-again:
		}
		s.none = reap(s.reap)
		if s.killing && s.busy && !s.empty {
			s.tree.skip = self.helping()
			s.empty = s.tree.step(s.none)
		}
	}
	g.alive.Store(false)
	signal.Stop(children)
	s.report()
	close(g.done)
	for _, o := range g.out.close() {
		closeAll(o.files)
	}
	g.sock.Close()
	g.timer.Close()
	g.cont.close()
}

// finished reports whether nothing is left to do but to say so.
func (s *supervisor) finished() bool {
	return s.reaped && s.ended && (!s.busy || s.empty)
}

// report says how it ended.
func (s *supervisor) report() {
	if s.busy {
		s.events.push(Event{Kind: Gone, Token: s.token})
	}
	s.events.push(Event{Kind: GuardDied, Token: s.token, Err: s.cause})
}

// kill ends the guard and, behind it, the tree. ARCHITECTURE.md G6.
func (s *supervisor) kill() {
	if s.killing {
		return
	}
	s.killing = true
	s.alive.Store(false)
	s.tree.begin()
	if !s.reaped {
		_ = unix.Kill(s.pid, unix.SIGKILL)
	}
}

// request passes on what was asked, and notes what it means for us.
func (s *supervisor) request(r request) {
	m := r.message
	now := boottime.Now()
	switch m.verb {
	case doArm, doExtend:
		if m.verb == doArm {
			s.token = m.token
		}
		if m.token == s.token {
			s.deadline = m.deadline
		}
		if s.unanswered++; s.unanswered == 1 {
			s.asked, s.wait = now, stallAfter(m.deadline, now)
		}
	case doBegin:
		if m.token == s.token {
			s.deadline = m.deadline
			s.busy = true
		}
	case doDisarm:
		if m.token == s.token {
			s.deadline = Deadline{}
		}
	}
	s.wake()
	s.out.push(r.out)
}

// wake sets the kernel's timer on ourselves, for our part of the work should we be stopped: a little behind the one
// that ends a stuck guard, and again and again, until the term is given back.
func (s *supervisor) wake() {
	at := s.deadline.last()
	if !at.IsZero() {
		at = at.Add(time.Millisecond)
	}
	s.cont.set(at, 50*time.Millisecond)
}

// next is the instant at which due has something to do.
func (s *supervisor) next() boottime.Time {
	var next boottime.Time
	earlier := func(t boottime.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if s.killing {
		return 0
	}
	if s.busy {
		earlier(s.deadline.last())
	}
	if s.unanswered > 0 {
		earlier(s.asked.Add(s.wait))
	}
	return next
}

// due does what the clock asks for.
func (s *supervisor) due() {
	now := boottime.Now()
	if s.killing {
		return
	}
	if s.busy && !s.deadline.last().IsZero() && !now.Before(s.deadline.last()) {
		s.listen(s.deadline.End.Sub(now) / 4)
		if s.busy && !s.killing {
			s.kill()
		}
		return
	}
	if s.unanswered > 0 && !now.Before(s.asked.Add(s.wait)) {
		s.listen(s.wait / 4)
		if s.unanswered == 0 || s.killing || s.reaped {
			return
		}
		_ = unix.Kill(s.pid, unix.SIGCONT)
		s.asked = now
		s.events.push(Event{Kind: Stalled, Token: s.token})
	}
}

// listen takes what the guard has said already: we may have been stopped, and the clock be first to tell.
func (s *supervisor) listen(limit time.Duration) {
	until := time.Now().Add(limit)
	for !s.ended && s.unheard() && time.Now().Before(until) {
		select {
		case m, ok := <-s.incoming:
			s.receive(m, ok)
		case <-time.After(100 * time.Microsecond):
		}
	}
}

// unheard reports whether something that the guard has said is still on the way. read says that it reads before it
// does, so nothing is missed between the two looks.
func (s *supervisor) unheard() bool {
	fds := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err != nil || n > 0 || s.reading.Load()
}

// reap notes a child that ended. Strangers are orphans that came to us as subreaper or as process 1.
func (s *supervisor) reap(pid int, status unix.WaitStatus) {
	self.forget(pid)
	switch pid {
	case s.pid:
		s.reaped = true
		s.kill()
	case s.child: // it came to us with the guard's death
		s.exited(pid, status)
	}
}

func (s *supervisor) exited(pid int, status unix.WaitStatus) {
	s.child = 0
	s.tree.lost()
	s.events.push(Event{Kind: Exited, Token: s.token, PID: pid, Status: status})
}

// answered notes that the guard answered a question.
func (s *supervisor) answered() {
	if s.unanswered > 0 {
		s.unanswered--
		s.asked = boottime.Now()
	}
}

// receive hands on what the guard says.
func (s *supervisor) receive(m message, ok bool) {
	if !ok {
		s.ended = true
		s.incoming = nil
		s.kill()
		return
	}
	e := Event{Token: m.token, Deadline: m.deadline}
	switch m.verb {
	case didFail:
		s.cause = errors.New(m.text)
		return
	case didStart:
		s.child = int(m.number)
		s.tree.found(s.child, s.group)
		e.Kind, e.PID = Started, s.child
	case didNotStart:
		e.Kind, e.Err = StartFailed, syscall.Errno(m.number)
	case didExit:
		s.exited(int(m.number), unix.WaitStatus(m.status))
		return
	case didLapse:
		e.Kind = Lapsed
	case didRefuse:
		s.answered()
		e.Kind, e.Err = Refused, errors.New(m.text)
	case didAck:
		s.answered()
		e.Kind = Acked
	case didGo:
		if m.token == s.token {
			s.busy = false
		}
		e.Kind = Gone
	case didLeave:
		s.alive.Store(false)
		s.cause = errors.New("exec: the guard hands the term back: it was not disarmed by its end")
		return
	default:
		return // didReady
	}
	s.events.push(e)
}
