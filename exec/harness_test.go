//go:build linux

package exec_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/boottime"
	"github.com/leaderrun/leaderrun/exec"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// leaderrun is a process that plays it.
type leaderrun struct {
	t       *testing.T
	cmd     *osexec.Cmd
	control *os.File
	lines   chan string
	events  []event // received and not asked for yet
	answers chan string
	guard   int
	ready   time.Duration // how long Start took
	report  string
}

// event is an exec.Event as it went over the pipe.
type event struct {
	kind   string
	token  int64
	pid    int
	status unix.WaitStatus
	err    string
	at     boottime.Time
	end    boottime.Time
}

type option func(*osexec.Cmd)

// play starts one. Each line of options changes how.
func play(t *testing.T, options ...option) *leaderrun {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	controlR, controlW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	eventsR, eventsW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	l := &leaderrun{t: t, control: controlW, lines: make(chan string, 1000), report: filepath.Join(t.TempDir(), "report"),
		answers: make(chan string, 1000)}
	l.cmd = osexec.Command(exe)
	l.cmd.Env = append(os.Environ(), "TEST_PART=leaderrun", "TEST_REPORT="+l.report, "GORACE=atexit_sleep_ms=0")
	l.cmd.Stderr = os.Stderr
	l.cmd.ExtraFiles = []*os.File{controlR, eventsW}
	l.cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true} // no controlling terminal, whatever the test runs in
	for _, o := range options {
		o(l.cmd)
	}
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	controlR.Close()
	eventsW.Close()
	go func() {
		defer close(l.lines)
		defer eventsR.Close()
		scan := bufio.NewScanner(eventsR)
		for scan.Scan() {
			l.lines <- scan.Text()
		}
	}()
	t.Cleanup(func() {
		controlW.Close()
		_ = l.cmd.Process.Signal(unix.SIGCONT)
		_ = l.cmd.Process.Kill()
		_ = l.cmd.Wait()
		for range l.lines {
		}
		if l.guard > 0 {
			kill(l.guard, unix.SIGCONT)
		}
		for limit := time.Now().Add(patience); l.guard > 0 && alive(l.guard) && time.Now().Before(limit); {
			time.Sleep(time.Millisecond) // it may write a report
		}
	})
	up := strings.Fields(l.line())
	if len(up) != 3 || up[0] != "up" {
		t.Fatalf("leaderrun said %q, want up", up)
	}
	l.guard, _ = strconv.Atoi(up[1])
	us, _ := strconv.Atoi(up[2])
	l.ready = time.Duration(us) * time.Microsecond
	return l
}

// line is the next thing that it says.
func (l *leaderrun) line() string {
	l.t.Helper()
	select {
	case line, ok := <-l.lines:
		if !ok {
			l.t.Fatal("leaderrun ended")
		}
		return line
	case <-time.After(patience):
		l.t.Fatal("leaderrun says nothing")
	}
	panic("not reached")
}

// try has it do something and returns its answer.
func (l *leaderrun) try(args ...any) string {
	l.t.Helper()
	var words []string
	for _, a := range args {
		switch a := a.(type) {
		case exec.Deadline:
			for _, at := range []boottime.Time{a.Term, a.Kill, a.End} {
				words = append(words, strconv.FormatInt(int64(at), 10))
			}
		case []string:
			words = append(words, a...)
		default:
			words = append(words, fmt.Sprint(a))
		}
	}
	text, _ := json.Marshal(words)
	if _, err := l.control.Write(append(text, '\n')); err != nil {
		l.t.Fatal(err)
	}
	for {
		line := l.line()
		if e, ok := parse(line); ok {
			l.events = append(l.events, e)
			continue
		}
		if line == "ok" || strings.HasPrefix(line, "error") {
			return line
		}
		l.answers <- line
	}
}

// do has it do something that must succeed.
func (l *leaderrun) do(args ...any) {
	l.t.Helper()
	if answer := l.try(args...); answer != "ok" {
		l.t.Fatalf("%v: %s", args, answer)
	}
}

func parse(line string) (event, bool) {
	f := strings.Split(line, "|")
	if len(f) != 7 {
		return event{}, false
	}
	n := func(i int) int64 {
		v, _ := strconv.ParseInt(f[i], 10, 64)
		return v
	}
	return event{f[0], n(1), int(n(2)), unix.WaitStatus(n(3)), f[4], boottime.Time(n(5)), boottime.Time(n(6))}, true
}

// next is the next event, whatever it is.
func (l *leaderrun) next() event {
	l.t.Helper()
	for len(l.events) == 0 {
		line := l.line()
		if e, ok := parse(line); ok {
			l.events = append(l.events, e)
		} else {
			l.answers <- line
		}
	}
	e := l.events[0]
	l.events = l.events[1:]
	return e
}

// want is the next event that is no ack, and not the news that an answer is late (the machine may be busy), which must
// be of this kind.
func (l *leaderrun) want(kind exec.Kind) event {
	l.t.Helper()
	for {
		e := l.next()
		if e.kind == kind.String() {
			return e
		}
		if e.kind != exec.Acked.String() && e.kind != exec.Stalled.String() {
			l.t.Fatalf("event %+v, want %v", e, kind)
		}
	}
}

// in is a deadline from now.
func in(term, kill, end time.Duration) exec.Deadline {
	now := boottime.Now()
	return exec.Deadline{Term: now.Add(term), Kill: now.Add(kill), End: now.Add(end)}
}

// far is a deadline that no test reaches.
func far() exec.Deadline { return in(time.Hour, time.Hour+time.Second, time.Hour+2*time.Second) }

// run arms term 1 and begins it with a command.
func (l *leaderrun) run(d exec.Deadline, command ...string) event {
	l.t.Helper()
	l.do("prepare", command)
	l.do("arm", 1, d)
	l.do("begin", 1, d)
	return l.want(exec.Started)
}

// crashReport waits for what the guard hands back.
func (l *leaderrun) crashReport() crashFile {
	l.t.Helper()
	var c crashFile
	eventually(l.t, "the guard's report", func() bool {
		text, err := os.ReadFile(l.report)
		return err == nil && json.Unmarshal(text, &c) == nil
	})
	if c.Children != 0 {
		l.t.Errorf("the guard reported while a process of the tree was left")
	}
	return c
}

// noReport checks that the guard has ended without one.
func (l *leaderrun) noReport() {
	l.t.Helper()
	eventually(l.t, "the guard's end", func() bool { return !alive(l.guard) })
	if text, err := os.ReadFile(l.report); !errors.Is(err, fs.ErrNotExist) {
		l.t.Errorf("the guard reported %s", text)
	}
}

func (l *leaderrun) signal(sig unix.Signal) { _ = l.cmd.Process.Signal(sig) }

func kill(pid int, sig unix.Signal) { _ = unix.Kill(pid, sig) }

// alive reports whether a process is there and no zombie.
func alive(pid int) bool {
	s := state(pid)
	return s != 0 && s != 'Z' && s != 'X'
}

// state is the letter of proc(5), 0 when there is no such process.
func state(pid int) byte {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return text[strings.LastIndexByte(string(text), ')')+2]
}

// stopped waits until a process that was sent SIGSTOP is.
func stopped(t *testing.T, pid int) {
	t.Helper()
	eventually(t, "a stopped process", func() bool { return state(pid) == 'T' })
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// tree is a FIFO that all processes of a tree hold open, so that its end is their death.
type tree struct {
	t    *testing.T
	path string
	read *os.File
}

func newTree(t *testing.T) *tree {
	t.Helper()
	f := &tree{t: t, path: filepath.Join(t.TempDir(), "fifo")}
	if err := unix.Mkfifo(f.path, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(f.path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.read = os.NewFile(uintptr(fd), f.path)
	t.Cleanup(func() {
		f.read.Close()
		if t.Failed() {
			f.kill()
		}
	})
	return f
}

// kill cleans up after a test that failed: it kills who holds the FIFO.
func (f *tree) kill() {
	links, _ := filepath.Glob("/proc/[0-9]*/fd/9")
	for _, link := range links {
		if file, _ := os.Readlink(link); strings.HasPrefix(file, f.path) {
			if pid, err := strconv.Atoi(strings.Split(link, "/")[2]); err == nil {
				kill(pid, unix.SIGKILL)
			}
		}
	}
}

// stubborn is the standard tree: all ignore TERM; the child, a grandchild, one with a session of its own, a daemon.
func (f *tree) stubborn() []string {
	return f.script(`trap "" TERM
sleep 1000 &
setsid sleep 1000 &
( (exec setsid sleep 1000) & )
echo ready >&9
wait
sleep 1000`)
}

// script is a shell that holds the FIFO as descriptor 9.
func (f *tree) script(text string) []string {
	return []string{"/bin/sh", "-c", "exec 9>" + f.path + "\n" + text}
}

// ready waits for a line.
func (f *tree) line() string {
	f.t.Helper()
	_ = f.read.SetReadDeadline(time.Now().Add(patience))
	var line []byte
	for {
		var b [1]byte
		n, err := f.read.Read(b[:])
		if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			f.t.Fatal("the child says nothing")
		}
		if n == 0 { // nobody has opened it yet
			time.Sleep(time.Millisecond)
			continue
		}
		if b[0] == '\n' {
			return string(line)
		}
		line = append(line, b[0])
	}
}

func (f *tree) ready() {
	f.t.Helper()
	if line := f.line(); line != "ready" {
		f.t.Fatalf("the child said %q, want ready", line)
	}
}

// gone waits until no process of the tree is left, and returns when that was.
func (f *tree) gone() boottime.Time {
	f.t.Helper()
	_ = f.read.SetReadDeadline(time.Now().Add(patience))
	var b [512]byte
	for {
		n, err := f.read.Read(b[:])
		switch {
		case n > 0:
		case errors.Is(err, os.ErrDeadlineExceeded):
			f.t.Fatal("a process of the tree is left")
		default:
			return boottime.Now()
		}
	}
}

// living reports whether a process of the tree is left.
func (f *tree) living() bool {
	fds := []unix.PollFd{}
	raw, err := f.read.SyscallConn()
	if err != nil {
		f.t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) { fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}) })
	_, _ = unix.Poll(fds, 0)
	return fds[0].Revents&unix.POLLHUP == 0
}

// quit has it do its last thing, and returns how it ended.
func (l *leaderrun) quit(args ...string) unix.WaitStatus {
	l.t.Helper()
	text, _ := json.Marshal(args)
	if _, err := l.control.Write(append(text, '\n')); err != nil {
		l.t.Fatal(err)
	}
	_ = l.cmd.Wait()
	status, _ := l.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return unix.WaitStatus(status)
}
