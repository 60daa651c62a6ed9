package exec

import (
	"errors"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/boottime"
)

// phase is where the guard is with the one term that it holds.
type phase byte

const (
	idle    phase = iota // no term
	armed                // a term, no process
	running              // the child runs, or has just ended
	lapsed               // TERM was sent because Deadline.Term passed
	killing              // the kill loop runs
	over                 // a term that lapsed, no process: it waits to be disarmed, until End
	leaving              // nothing more to do here
)

// keeper is the guard, in its own process: one thread, one loop, which owns all of this.
//
//	            prepare  arm      begin    extend  signal  kill     disarm   Term     Kill     End      child    empty    leaderrun
//	                                                                         passes   passes   passes   ended             died
//	idle        keep     armed    refuse   refuse  –       –        –        –        –        –        –        –        leave
//	armed       keep     refuse   running  ack     –       go       idle     over     –        –        –        –        report
//	running     keep     refuse   refuse   ack     pass    killing  killing¹ lapsed   –        –        killing  –        killing
//	lapsed      keep     refuse   refuse   refuse  pass    killing  killing¹ –        killing  –        note     over     killing
//	killing     keep     refuse   refuse   ack²    pass    –        –¹       note²    –        –        note     armed³   –
//	over        keep     refuse   refuse   refuse  –       go       idle     –        –        report   –        –        report
//
// ¹ the term is forgotten when the tree is empty. ² a term is over once TERM was sent, or would have been (rule 7 of
// ARCHITECTURE.md). ³ or over, idle, or report. "report": leave, with a CrashReport for main. "go": say Gone at once.
type keeper struct {
	fd   int
	wire wire
	out  []byte // not yet sent

	alarm  alarm
	wake   int          // readable after a SIGCHLD
	cont   *kernelTimer // wakes us, should we be stopped
	last   *kernelTimer // ends us, should we be stuck while processes are left
	rank   priority
	signal chan os.Signal

	command message
	phase   phase
	term    message // of doArm; its deadline is the one in force
	files   []int
	begun   bool
	lapse   bool // Term passed
	forget  bool // disarmed with processes left
	alone   bool // leaderrun is dead

	child  int // of the tree's processes the one that we started, 0 once it was reaped
	pidfd  int
	tree   tree
	report bool
}

// guardMain is the guard. It returns nil when the process is to exit.
func guardMain(fd int) *CrashReport {
	k := &keeper{fd: fd, pidfd: -1}
	if err := k.setUp(); err != nil {
		k.tell(message{verb: didFail, text: err.Error()})
		k.flush()
		return nil
	}
	k.tell(message{verb: didReady})
	for k.phase != leaving {
		k.receive()
		none := reap(k.ended)
		k.clock()
		if k.phase == killing || k.phase == lapsed {
			k.clear(none)
		}
		k.mortality()
		k.flush()
		if k.phase != leaving {
			k.wait()
		}
	}
	k.tearDown()
	if !k.report {
		return nil
	}
	files := make([]*os.File, len(k.files))
	for i, fd := range k.files {
		files[i] = os.NewFile(uintptr(fd), "term")
	}
	return &CrashReport{Token: k.term.token, Crash: k.term.blob, Files: files, Begun: k.begun, Deadline: k.term.deadline}
}

// setUp prepares everything that can fail.
func (k *keeper) setUp() (err error) {
	asHelper(guardName, unix.SIGCONT)
	if err = adopt(); err != nil {
		return err
	}
	if k.cont, err = newKernelTimer(unix.SIGCONT); err != nil {
		return err
	}
	if k.last, err = newKernelTimer(unix.SIGKILL); err != nil {
		return err
	}
	if k.alarm, err = newAlarm(); err != nil {
		return err
	}
	k.outlive()
	if err = k.watchChildren(); err != nil {
		return err
	}
	k.rank.take()
	return nil
}

// outlive catches what a terminal or a kill meant for leaderrun may send, so that it has no effect here. It catches and
// does not ignore, since the child would inherit that; what was ignored before stays so. ARCHITECTURE.md G11, G15.
func (k *keeper) outlive() {
	k.signal = make(chan os.Signal, 1)
	for _, s := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU} {
		if !signal.Ignored(s) {
			signal.Notify(k.signal, s) // never received from: when it is full they are dropped
		}
	}
}

// watchChildren makes SIGCHLD readable for the poll: signals go to any thread, so an interrupted poll is not enough.
func (k *keeper) watchChildren() error {
	var pipe [2]int
	if err := unix.Pipe(pipe[:]); err != nil {
		return err
	}
	for _, fd := range pipe {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			return err
		}
	}
	k.wake = pipe[0]
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	go func() { // lives as long as the process
		for range children {
			_, _ = unix.Write(pipe[1], []byte{0}) // full is as good
		}
	}()
	return nil
}

// tearDown leaves a process that main can go on with: nothing will kill it, and it holds none of the child's pipes.
func (k *keeper) tearDown() {
	k.cont.set(0, 0)
	k.last.set(0, 0)
	if !k.report {
		return
	}
	k.rank.quit()
	signal.Ignore(unix.SIGTTOU) // a log line on a terminal with "stty tostop" must not wait for ever
	letGo()
	// The socket stays open: its end tells leaderrun, should it live, that this process is gone.
}

// wait sleeps until something happens.
func (k *keeper) wait() {
	limit := time.Duration(-1)
	if k.phase == killing {
		limit = pause(k.tree.round)
	}
	fds := []unix.PollFd{
		{Fd: int32(k.fd), Events: unix.POLLIN},
		{Fd: int32(k.wake), Events: unix.POLLIN},
		{Fd: int32(k.alarm.fd), Events: unix.POLLIN},
		{Fd: int32(k.pidfd), Events: unix.POLLIN},
	}
	if k.alone {
		fds[0].Fd = -1 // its end was seen
	} else if len(k.out) > 0 {
		fds[0].Events |= unix.POLLOUT
	}
	k.alarm.wait(fds, limit)
	if fds[1].Revents != 0 {
		var buf [64]byte
		_, _ = unix.Read(k.wake, buf[:])
	}
}

// receive handles what leaderrun has sent. That it died is seen first: nothing is begun for a dead one.
func (k *keeper) receive() {
	var err error
	for !k.alone && err == nil {
		err = k.wire.fill(k.fd)
		if errors.Is(err, unix.EINTR) {
			err = nil
		}
	}
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		k.alone = true
	}
	for {
		m, files, ok, err := k.wire.next()
		if err != nil {
			k.alone = true // a leaderrun that talks nonsense cannot be served
		}
		if !ok {
			break
		}
		k.handle(m, files)
	}
	if k.alone {
		k.orphaned()
	}
}

// tell queues a message to leaderrun.
func (k *keeper) tell(m message) {
	if !k.alone {
		k.out = m.encode(k.out)
	}
}

// flush sends what goes without blocking: leaderrun may be stopped, with its buffer full.
func (k *keeper) flush() {
	for len(k.out) > 0 && !k.alone {
		n, err := push(k.fd, k.out, nil)
		if err != nil {
			return // full, or the end, which receive will see
		}
		k.out = k.out[n:]
	}
	k.out = nil
}

// mortality sets the alarm and the kernel timers behind it for what has to happen next. The one that ends us is for a
// guard that is stuck with processes left and a leaderrun that will kill them: without one, working on is better.
func (k *keeper) mortality() {
	d := k.term.deadline
	var next, last boottime.Time
	switch k.phase {
	case armed:
		next = d.Term
	case running:
		next, last = d.Term, d.last()
	case lapsed:
		next, last = d.Kill, d.last()
	case killing:
		last = d.last()
		if !k.lapse {
			next = d.Term
		}
	case over:
		next = d.End
	}
	if k.alone {
		next, last = 0, 0
	}
	k.alarm.set(next)
	k.cont.set(next, 50*time.Millisecond)
	k.last.set(last, 0)
}
