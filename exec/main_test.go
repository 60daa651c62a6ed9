//go:build linux

package exec_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/boottime"
	"github.com/leaderrun/leaderrun/exec"
)

// The test binary plays every part: that of leaderrun with TEST_PART=leaderrun, and, since this package's init takes
// over there too, that of the guard and of the sentinel.
func TestMain(m *testing.M) {
	if report := exec.Crashed(); report != nil {
		writeReport(report)
		os.Exit(0)
	}
	if os.Getenv("TEST_PART") == "leaderrun" {
		os.Exit(playLeaderrun())
	}
	goleak.VerifyTestMain(m)
}

// crashFile is what writeReport writes.
type crashFile struct {
	Token    int64
	Crash    string
	Begun    bool
	Files    []string
	PID      int
	Children int // left below the guard when it reports
	End      int64
	Stdout   string
}

func writeReport(r *exec.CrashReport) {
	c := crashFile{Token: r.Token, Crash: string(r.Crash), Begun: r.Begun, PID: os.Getpid(), End: int64(r.Deadline.End)}
	for _, f := range r.Files {
		text := make([]byte, 100)
		n, _ := f.ReadAt(text, 0)
		c.Files = append(c.Files, string(text[:n]))
	}
	c.Stdout, _ = os.Readlink("/proc/self/fd/1")
	if _, err := unix.Wait4(-1, nil, unix.WNOHANG|unix.WALL, nil); err != unix.ECHILD {
		c.Children = 1
	}
	text, _ := json.Marshal(c)
	name := os.Getenv("TEST_REPORT")
	_ = os.WriteFile(name+".tmp", text, 0o600)
	_ = os.Rename(name+".tmp", name)
}

// playLeaderrun does what descriptor 3 says, line by line, and writes answers and events to descriptor 4.
func playLeaderrun() int {
	for fd := 3; fd <= 4; fd++ {
		unix.CloseOnExec(fd)
	}
	asked := boottime.Now()
	guard, err := exec.Start()
	out := os.NewFile(4, "events")
	if err != nil {
		fmt.Fprintf(out, "failed %v\n", err)
		return 1
	}
	fmt.Fprintf(out, "up %d %d\n", guard.PID(), boottime.Now().Sub(asked).Microseconds())
	p := &player{guard: guard, out: out, done: make(chan struct{})}
	p.report(guard)
	lines := bufio.NewScanner(os.NewFile(3, "control"))
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		if code, quit := p.do(lines.Text()); quit {
			return code
		}
	}
	return 0
}

type player struct {
	guard   *exec.Guard
	out     *os.File
	done    chan struct{}
	signals *exec.Signals
}

func (p *player) report(g *exec.Guard) {
	p.done = make(chan struct{})
	done := p.done
	go func() {
		defer close(done)
		for e := range g.Events() {
			fmt.Fprintf(p.out, "%s|%d|%d|%d|%v|%d|%d\n", e.Kind, e.Token, e.PID, e.Status, e.Err, boottime.Now(), e.Deadline.End)
		}
	}()
}

// do carries out one line: a word and its arguments, in JSON.
func (p *player) do(line string) (code int, quit bool) {
	var args []string
	if err := json.Unmarshal([]byte(line), &args); err != nil {
		panic(err)
	}
	number := func(i int) int64 {
		n, err := strconv.ParseInt(args[i], 10, 64)
		if err != nil {
			panic(err)
		}
		return n
	}
	deadline := func(i int) exec.Deadline {
		return exec.Deadline{Term: boottime.Time(number(i)), Kill: boottime.Time(number(i + 1)), End: boottime.Time(number(i + 2))}
	}
	var err error
	switch args[0] {
	case "prepare":
		err = p.guard.Prepare(exec.Command{Path: args[1], Args: args[1:], Env: os.Environ()})
	case "arm":
		term := exec.Term{Token: number(1), Deadline: deadline(2), Crash: []byte("secret" + args[1])}
		for _, name := range args[5:] {
			f, err := os.Open(name)
			if err != nil {
				panic(err)
			}
			defer f.Close()
			term.Files = append(term.Files, f)
		}
		err = p.guard.Arm(term)
	case "begin":
		err = p.guard.Begin(number(1), deadline(2), args[5:])
	case "extend":
		err = p.guard.Extend(number(1), deadline(2))
	case "signal":
		err = p.guard.Signal(number(1), unix.Signal(number(2)))
	case "kill":
		err = p.guard.Kill(number(1))
	case "disarm":
		err = p.guard.Disarm(number(1))
	case "close":
		err = p.guard.Close()
		<-p.done
	case "start":
		if p.guard, err = exec.Start(); err == nil {
			p.report(p.guard)
		}
	case "alive":
		fmt.Fprintf(p.out, "alive %v\n", p.guard.Alive())
	case "watch":
		p.signals, err = exec.WatchSignals()
		go func(c <-chan exec.Signal) {
			for s := range c {
				fmt.Fprintf(p.out, "signal %d %v\n", s.Num, s.Group)
				if !s.Group {
					_ = p.guard.Signal(1, s.Num)
				}
			}
		}(p.signals.C())
	case "sweep":
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		var s exec.Swept
		s, err = exec.Sweep(ctx, args[1], args[2], args[3])
		fmt.Fprintf(p.out, "swept %d\n", s.Killed)
	case "leaks":
		err = goleak.Find()
	case "spawn": // a child of leaderrun's own
		pid, err := syscall.ForkExec(args[1], args[1:], &syscall.ProcAttr{Files: []uintptr{0, 1, 2}, Env: os.Environ()})
		fmt.Fprintf(p.out, "spawned %d %v\n", pid, err)
	case "exit":
		if p.signals != nil {
			p.signals.Close()
		}
		_ = p.guard.Close()
		return int(number(1)), true
	case "die":
		exec.DieBy(unix.Signal(number(1)))
	default:
		panic(args[0])
	}
	if err != nil {
		fmt.Fprintf(p.out, "error %s\n", strings.ReplaceAll(err.Error(), "\n", " "))
	} else {
		fmt.Fprintln(p.out, "ok")
	}
	return 0, false
}
