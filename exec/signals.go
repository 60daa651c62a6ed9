package exec

import (
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/boottime"
)

// Signal is a signal that this process got.
type Signal struct {
	Num   unix.Signal
	Group bool // the whole process group got it, so the child has it already
}

// Signals receives INT, TERM, HUP, QUIT, USR1 and USR2, those that are not ignored, and tells whether each was for the
// process group, when the child is in it. What stops and continues (TSTP, TTIN, TTOU, CONT) keeps its default effect:
// the kernel does it for the child as well. ARCHITECTURE.md G11.
type Signals struct {
	out  *queue[Signal]
	in   chan os.Signal
	stop chan struct{}
	join sync.WaitGroup
}

// WatchSignals starts receiving at once. The sentinel, needed only with a controlling terminal, starts beside it.
func WatchSignals() (*Signals, error) {
	s := &Signals{out: newQueue[Signal](), in: make(chan os.Signal, 64), stop: make(chan struct{})}
	if list := watched(); len(list) > 0 { // Notify without a list is all of them
		signal.Notify(s.in, list...)
	}
	s.join.Go(s.run)
	return s, nil
}

// C is where they come out, in the order of their arrival. It is closed by Close.
func (s *Signals) C() <-chan Signal { return s.out.c }

// Close ends the watch: the signals have the effect that the runtime gives them. Call it once.
func (s *Signals) Close() {
	signal.Stop(s.in)
	close(s.stop)
	s.join.Wait()
	s.out.close()
}

func (s *Signals) run() {
	if !hasTerminal() {
		for {
			select {
			case sig := <-s.in:
				s.out.push(Signal{Num: sig.(unix.Signal)})
			case <-s.stop:
				return
			}
		}
	}
	watch, err := startSentinel()
	if err == nil {
		defer watch.close()
	}
	for {
		select {
		case sig := <-s.in:
			num, at := sig.(unix.Signal), boottime.Now()
			answer := unsure
			if err == nil {
				answer = watch.ask(num, at)
			}
			if answer == unsure {
				answer = guess(num)
			}
			s.out.push(Signal{Num: num, Group: answer == group})
		case <-s.stop:
			return
		}
	}
}

// guess decides without a sentinel: INT and QUIT, while we are in the foreground, are the keyboard's.
func guess(num unix.Signal) verdict {
	if num != unix.SIGINT && num != unix.SIGQUIT {
		return alone
	}
	tty, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return alone
	}
	defer unix.Close(tty)
	if foreground(tty) {
		return group
	}
	return alone
}
