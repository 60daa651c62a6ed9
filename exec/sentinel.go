package exec

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/boottime"
)

// The sentinel answers one question. With a controlling terminal the child shares leaderrun's process group, so a
// signal to the group (the keyboard's, a shell's "kill %1", a hang-up) has reached the child already, while one to
// leaderrun alone has not and must be forwarded. Who sent a signal to whom cannot be seen in Go. A third process in the
// group that counts what it gets can tell: a signal that it got as well was the group's. ARCHITECTURE.md G10.

const (
	// settle is how long the sentinel waits before it answers, for the kernel to have reached every process of the group.
	settle = 3 * time.Millisecond
	// fresh is how old its copy may be: one signal to the group may be seen twice here and once there, when two came
	// close together, and must not be taken for a later one.
	fresh = 250 * time.Millisecond
)

// question is "has the group got this signal, which came to me at that time?"; the answer has the same number.
type question struct {
	number uint32
	signal byte
	at     boottime.Time
}

const (
	questionSize = 13
	answerSize   = 5
)

type verdict byte

const (
	unsure verdict = iota // the sentinel did not run yet when the signal came
	alone                 // it was for leaderrun alone
	group                 // it was for the whole group
)

func (q question) encode() []byte {
	b := binary.LittleEndian.AppendUint32(nil, q.number)
	b = append(b, q.signal)
	return binary.LittleEndian.AppendUint64(b, uint64(q.at))
}

func decodeQuestion(b []byte) question {
	return question{binary.LittleEndian.Uint32(b), b[4], boottime.Time(binary.LittleEndian.Uint64(b[5:]))}
}

// watched are the signals that leaderrun forwards. Those that were ignored when it was executed it goes on to ignore.
func watched() []os.Signal {
	var list []os.Signal
	for _, s := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2} {
		// What is ignored stays so, here and in the child: nohup, and "&" in a script. The runtime does not know about
		// QUIT, which follows INT, and has put a handler of its own in its place: it prints all stacks and exits.
		if s == unix.SIGQUIT && signal.Ignored(unix.SIGINT) {
			signal.Ignore(s)
		}
		if signal.Ignored(s) {
			continue
		}
		list = append(list, s)
	}
	return list
}

// count is what the sentinel has got and not yet accounted for, by signal.
type count map[byte][]boottime.Time

// drain counts what has come. The marker is a signal to this process itself: the kernel delivers, and the runtime hands
// on, those with lower numbers first, so what has not come before it was not sent.
func (c count) drain(signals <-chan os.Signal) {
	if unix.Kill(os.Getpid(), marker) != nil {
		return // the queue of pending signals is full
	}
	for s := range signals {
		if s == marker {
			return
		}
		c[byte(s.(unix.Signal))] = append(c[byte(s.(unix.Signal))], boottime.Now())
	}
}

// take accounts for one signal that came to leaderrun at the instant at.
func (c count) take(s byte, at boottime.Time) bool {
	list := c[s]
	for len(list) > 0 && at.Sub(list[0]) > fresh {
		list = list[1:]
	}
	found := len(list) > 0
	if found {
		list = list[1:]
	}
	c[s] = list
	return found
}

// sentinelMain is the sentinel. It ends with leaderrun.
func sentinelMain(fd int) *CrashReport {
	asHelper(sentinelName, unix.SIGKILL)
	closeInherited(fd)
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, watched()...)
	stops := make(chan os.Signal, 1) // Ctrl-Z must not stop us: leaderrun may be continued alone
	signal.Notify(stops, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
	signal.Notify(signals, marker)
	since := boottime.Now()
	counted := count{}
	for {
		var buf [questionSize]byte
		if !readFull(fd, buf[:]) {
			return nil
		}
		q := decodeQuestion(buf[:])
		time.Sleep(settle)
		counted.drain(signals)
		answer := append(binary.LittleEndian.AppendUint32(nil, q.number), byte(alone))
		switch {
		case q.at.Before(since):
			answer[4] = byte(unsure)
		case counted.take(q.signal, q.at):
			answer[4] = byte(group)
		}
		_, _ = push(fd, answer, nil) // leaderrun asks one question at a time
	}
}

// readFull waits for as many bytes as fit into b. It returns false at the end.
func readFull(fd int, b []byte) bool {
	for len(b) > 0 {
		n, err := unix.Read(fd, b)
		switch {
		case errors.Is(err, unix.EAGAIN):
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		case errors.Is(err, unix.EINTR):
		case err != nil, n == 0:
			return false
		default:
			b = b[n:]
		}
	}
	return true
}

// sentinel is that process, seen from leaderrun.
type sentinel struct {
	pid     int
	sock    *os.File
	asked   uint32
	answers chan [answerSize]byte
	join    sync.WaitGroup
}

// startSentinel forks it, with nothing of ours open: it must not keep a pipe from ending.
func startSentinel() (*sentinel, error) {
	ours, theirs, err := socketpair()
	if err != nil {
		return nil, err
	}
	sock := os.NewFile(uintptr(ours), "sentinel")
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		unix.Close(theirs)
		sock.Close()
		return nil, err
	}
	defer null.Close()
	fd := null.Fd()
	pid, err := forkHelper(sentinelName, theirs, [3]uintptr{fd, fd, fd}, sentinelAttr())
	if err != nil {
		sock.Close()
		return nil, err
	}
	s := &sentinel{pid: pid, sock: sock, answers: make(chan [answerSize]byte, 16)}
	s.join.Go(s.read)
	return s, nil
}

func (s *sentinel) read() {
	defer close(s.answers)
	for {
		var buf [answerSize]byte
		if _, err := io.ReadFull(s.sock, buf[:]); err != nil {
			return
		}
		select {
		case s.answers <- buf:
		default: // nobody waits for it any more
		}
	}
}

// ask puts the question. It takes a few milliseconds; a sentinel that does not answer is unsure.
func (s *sentinel) ask(num unix.Signal, at boottime.Time) verdict {
	s.asked++
	if _, err := s.sock.Write(question{s.asked, byte(num), at}.encode()); err != nil {
		return unsure
	}
	for _, limit := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond} {
		timeout := time.After(limit)
	waiting:
		for {
			select {
			case a, ok := <-s.answers:
				switch {
				case !ok:
					return unsure
				case binary.LittleEndian.Uint32(a[:]) == s.asked:
					return verdict(a[4])
				}
			case <-timeout:
				break waiting
			}
		}
		_ = unix.Kill(s.pid, unix.SIGCONT) // somebody stopped it
	}
	return unsure
}

// close ends it.
func (s *sentinel) close() {
	s.sock.Close()
	s.join.Wait()
	_ = unix.Kill(s.pid, unix.SIGCONT)
	var status unix.WaitStatus
	for { // the Guard's reaper may have been first
		if _, err := unix.Wait4(s.pid, &status, 0, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	self.forget(s.pid)
}
