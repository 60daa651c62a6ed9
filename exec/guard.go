package exec

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/boottime"
)

// Guard is the guard process, seen from leaderrun. Its methods may be called concurrently; none waits for the guard,
// which may be stopped. The answers are events.
type Guard struct {
	pid    int
	group  int      // of the child: ours, or 0 for its own
	ignore []string // what the child is to ignore

	fd       int // of sock
	sock     *os.File
	reading  atomic.Bool  // read has taken bytes from it and not handed them on yet
	cont     *kernelTimer // wakes us for our part, should we be stopped
	timer    *boottime.Timer
	events   *queue[Event]
	out      *queue[outgoing]
	requests chan request
	incoming chan message

	alive   atomic.Bool
	closing chan struct{}
	ending  sync.Once
	closed  sync.Once
	done    chan struct{} // supervise has ended
	join    sync.WaitGroup
}

type outgoing struct {
	bytes []byte
	files []int
}

type request struct {
	message message
	out     outgoing
}

// Start executes this binary once more as guard. leaderrun calls it first thing, before flags are parsed, so that the
// two milliseconds that it takes pass beside the rest. It makes this process a child subreaper and reaps every child
// from now on: nothing else in the process may wait for one. One guard at a time; once it is
// dead another may be started, before or after the dead one is closed.
func Start() (*Guard, error) {
	if err := checkProc(); err != nil {
		return nil, err
	}
	self.starting.Lock()
	defer self.starting.Unlock()
	if err := self.vacate(); err != nil {
		return nil, err
	}
	return start()
}

func start() (*Guard, error) {
	if err := adopt(); err != nil {
		return nil, err
	}
	for _, pid := range children() {
		self.help(pid) // what a shell started before it executed us is not the command's
	}
	cont, err := newKernelTimer(unix.SIGCONT)
	if err != nil {
		return nil, err
	}
	timer, err := boottime.NewTimer()
	if err != nil {
		cont.close()
		return nil, err
	}
	ours, theirs, err := socketpair()
	if err != nil {
		cont.close()
		timer.Close()
		return nil, err
	}
	g := &Guard{
		ignore: inheritedIgnores(), fd: ours, sock: os.NewFile(uintptr(ours), "guard"), cont: cont, timer: timer,
		requests: make(chan request), incoming: make(chan message), closing: make(chan struct{}), done: make(chan struct{}),
	}
	if hasTerminal() {
		g.group = unix.Getpgrp()
	}
	if g.pid, err = forkHelper(guardName, theirs, [3]uintptr{0, 1, 2}, guardAttr()); err != nil {
		cont.close()
		timer.Close()
		g.sock.Close()
		return nil, err
	}
	self.use(g)
	g.alive.Store(true)
	g.events = newQueue[Event]()
	g.out = newQueue[outgoing]()
	g.join.Go(g.read)
	g.join.Go(g.write)
	g.join.Go(g.supervise)
	return g, nil
}

// PID is the guard's process.
func (g *Guard) PID() int { return g.pid }

// Alive reports whether the guard can still be used.
func (g *Guard) Alive() bool { return g.alive.Load() }

// Events is where guard and child report. Nothing is lost, however slowly it is received; it is closed by Close.
func (g *Guard) Events() <-chan Event { return g.events.c }

// Prepare says what Begin will run. To be called early: then winning costs no more than a fork.
func (g *Guard) Prepare(c Command) error {
	return g.send(message{verb: doPrepare, number: int64(g.group), text: c.Path, args: c.Args, env: c.Env, ignore: g.ignore}, nil)
}

// Arm gives the guard a term that was acquired and in which no child may run yet. If leaderrun dies, or lets the term
// run out, the guard hands it back once the tree is gone: see Crashed. Acked follows, or Refused when there is an
// earlier term that was not disarmed.
func (g *Guard) Arm(t Term) error {
	if len(t.Files) > maxFiles {
		return fmt.Errorf("exec: %d files in a term, more than %d", len(t.Files), maxFiles)
	}
	var files []int
	for _, f := range t.Files {
		fd, err := duplicate(f)
		if err != nil {
			closeAll(files)
			return fmt.Errorf("exec: keep %s for the guard: %w", f.Name(), err)
		}
		files = append(files, fd)
	}
	return g.send(message{verb: doArm, token: t.Token, blob: t.Crash, deadline: t.Deadline}, files)
}

// Begin starts the child of the term, unless d.Term has passed when the guard gets to it, or the term is another, or
// has lapsed: then Refused follows. env is added to Command.Env, in the place of entries of the same name. It may be
// called again in the same term after Gone.
func (g *Guard) Begin(token int64, d Deadline, env []string) error {
	return g.send(message{verb: doBegin, token: token, deadline: d, env: env}, nil)
}

// Extend moves the deadline of the term. Acked follows, or Refused when TERM was already sent for the old one: a term
// that lapsed is over.
func (g *Guard) Extend(token int64, d Deadline) error {
	return g.send(message{verb: doExtend, token: token, deadline: d}, nil)
}

// Signal sends a signal to the child, and to no other process, as kill(1) on its number would.
func (g *Guard) Signal(token int64, sig unix.Signal) error {
	return g.send(message{verb: doSignal, token: token, number: int64(sig)}, nil)
}

// Kill kills the whole tree. Gone follows.
func (g *Guard) Kill(token int64) error { return g.send(message{verb: doKill, token: token}, nil) }

// Disarm makes the guard forget the term and close its files: leaderrun has given it back. To be called after Gone; a
// tree that is left is killed.
func (g *Guard) Disarm(token int64) error { return g.send(message{verb: doDisarm, token: token}, nil) }

// Close ends the guard; a tree that is left is killed first, and the term, if there is one, is not handed back by
// anybody. It returns when all of that is gone.
func (g *Guard) Close() error {
	g.end()
	g.closed.Do(func() {
		g.join.Wait()
		g.events.close()
	})
	return nil
}

// end makes supervise kill guard and tree, and end.
func (g *Guard) end() { g.ending.Do(func() { close(g.closing) }) }

// send queues a message; files belong to it from here on.
func (g *Guard) send(m message, files []int) error {
	if !g.alive.Load() {
		closeAll(files)
		return ErrGuardGone
	}
	m.files = len(files)
	bytes := m.encode(nil)
	if len(bytes)-4 > maxMessage {
		closeAll(files)
		return fmt.Errorf("exec: command and environment: %w", unix.E2BIG)
	}
	select {
	case g.requests <- request{m, outgoing{bytes, files}}:
		return nil
	case <-g.done:
		closeAll(files)
		return ErrGuardGone
	}
}

// duplicate makes a second descriptor of an open file, without changing the file's mode.
func duplicate(f *os.File) (fd int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	outer := raw.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, errors.Join(outer, err)
}

// read hands on what the guard says, until its end of the socket is closed.
func (g *Guard) read() {
	defer close(g.incoming)
	raw, err := g.sock.SyscallConn()
	if err != nil {
		return
	}
	var w wire
	for {
		var got error
		g.reading.Store(false)
		err := raw.Read(func(fd uintptr) bool {
			g.reading.Store(true)
			if got = w.fill(int(fd)); errors.Is(got, unix.EAGAIN) {
				g.reading.Store(false)
				return false
			}
			return true
		})
		if err != nil || got != nil && !errors.Is(got, unix.EINTR) {
			return
		}
		for {
			m, files, ok, err := w.next()
			closeAll(files) // the guard sends none
			if err != nil {
				return
			}
			if !ok {
				break
			}
			g.incoming <- m // supervise receives until the end
		}
	}
}

// write sends what is queued. It, and not who asked, waits for a guard that does not read.
func (g *Guard) write() {
	raw, err := g.sock.SyscallConn()
	for o := range g.out.c {
		for rest, files := o.bytes, o.files; len(rest) > 0 && err == nil; {
			var n int
			var failed error
			err = raw.Write(func(fd uintptr) bool {
				n, failed = push(int(fd), rest, files)
				return !errors.Is(failed, unix.EAGAIN)
			})
			err = errors.Join(err, failed)
			if n > 0 {
				rest, files = rest[n:], nil
			}
		}
		closeAll(o.files)
	}
}

// stallAfter is how long an answer of the guard may take: about the time between two heartbeats, which leaves two more
// until TERM.
func stallAfter(d Deadline, now boottime.Time) time.Duration {
	return max(d.Term.Sub(now)/4, 50*time.Millisecond)
}
