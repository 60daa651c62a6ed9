package main_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// binary is the directory of the leaderrun that the scripts run: built as a user would, so that names, arguments and
// the re-executed guard are the real ones.
var binary string

func TestMain(m *testing.M) {
	if file := os.Getenv(childMode); file != "" {
		stamp(file)
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "leaderrun-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	args := []string{"build", "-o", filepath.Join(dir, "leaderrun")}
	if race {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	binary = dir
	return m.Run()
}

// patience bounds every wait of a script for something that has to happen.
const patience = 20 * time.Second

func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			p := &processes{byName: map[string]*process{}}
			env.Values[processesKey{}] = p
			env.Defer(p.end)
			env.Setenv("PATH", binary+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("LEADERRUN_STATE_DIR", filepath.Join(env.WorkDir, "state"))
			env.Setenv("GORACE", "atexit_sleep_ms=10")
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    exits,
			"start":    start,
			"signal":   sendSignal,
			"ended":    ended,
			"waitfile": waitFile,
			"waitgone": waitGone,
			"waitline": waitLine,
		},
	})
}

type processesKey struct{}

// processes are those that a script started and did not wait for.
type processes struct {
	mu     sync.Mutex
	byName map[string]*process
}

type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

func (p *processes) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.byName {
		_ = one.cmd.Process.Kill()
		<-one.done
	}
}

func of(ts *testscript.TestScript, name string) *process {
	p := ts.Value(processesKey{}).(*processes)
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.byName[name]
	if one == nil {
		ts.Fatalf("nothing was started as %s", name)
	}
	return one
}

// exits CODE COMMAND...: the command ends with exactly this code, or, as "TERM", by this signal.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	if got := ending(ts.Exec(args[1], args[2:]...)); got != args[0] {
		ts.Fatalf("%s = %s, want %s", strings.Join(args[1:], " "), got, args[0])
	}
}

// ending is how a process ended: its code, or the name of the signal.
func ending(err error) string {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "0"
	case !errors.As(err, &exit):
		return err.Error()
	}
	status := exit.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return strings.TrimPrefix(unix.SignalName(status.Signal()), "SIG")
	}
	return strconv.Itoa(status.ExitStatus())
}

// start NAME COMMAND...: runs beside the script, in a session of its own, with output in NAME.out and NAME.err.
func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME COMMAND...")
	}
	name := args[0]
	path := args[1]
	if path == "leaderrun" {
		path = filepath.Join(binary, path)
	}
	cmd := exec.Command(path, args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, v := range []string{"PATH", "HOME", "WORK", "GORACE", "LEADERRUN_STATE_DIR", "LEADERRUN_LOG_FORMAT"} {
		cmd.Env = append(cmd.Env, v+"="+ts.Getenv(v))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := os.Create(ts.MkAbs(name + ".out"))
	ts.Check(err)
	defer out.Close()
	errs, err := os.Create(ts.MkAbs(name + ".err"))
	ts.Check(err)
	defer errs.Close()
	cmd.Stdout, cmd.Stderr = out, errs
	ts.Check(cmd.Start())
	ts.Check(os.WriteFile(ts.MkAbs(name+".pid"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600))
	one := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		one.err = cmd.Wait()
		close(one.done)
	}()
	p := ts.Value(processesKey{}).(*processes)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byName[name] = one
}

// signal SIGNAL NAME|FILE: to what was started as NAME, or to the process whose number is in FILE.
func sendSignal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: signal SIGNAL NAME|FILE")
	}
	sig := unix.SignalNum("SIG" + args[0])
	if sig == 0 {
		ts.Fatalf("no signal %s", args[0])
	}
	file := args[1]
	if _, err := os.Stat(ts.MkAbs(file)); err != nil {
		file += ".pid"
	}
	ts.Check(unix.Kill(pidIn(ts, file), sig))
}

// ended NAME CODE: what was started as NAME ends, with this code or by this signal.
func ended(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ended NAME CODE")
	}
	one := of(ts, args[0])
	select {
	case <-one.done:
	case <-time.After(patience):
		show(ts, args[0])
		ts.Fatalf("%s has not ended after %v", args[0], patience)
	}
	if got := ending(one.err); got != args[1] {
		show(ts, args[0])
		ts.Fatalf("%s ended with %s, want %s", args[0], got, args[1])
	}
}

func show(ts *testscript.TestScript, name string) {
	for _, suffix := range []string{".out", ".err"} {
		data, _ := os.ReadFile(ts.MkAbs(name + suffix))
		ts.Logf("[%s%s]\n%s", name, suffix, data)
	}
}

// waitfile FILE...: until each is there.
func waitFile(ts *testscript.TestScript, neg bool, args []string) {
	for _, file := range args {
		poll(ts, file+" is not there", func() bool {
			_, err := os.Stat(ts.MkAbs(file))
			return err == nil
		})
	}
}

// waitline FILE TEXT: until the file has it.
func waitLine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waitline FILE TEXT")
	}
	poll(ts, args[0]+" has no "+args[1], func() bool {
		data, _ := os.ReadFile(ts.MkAbs(args[0]))
		return strings.Contains(string(data), args[1])
	})
}

// waitgone FILE...: until the processes whose numbers are in the files are gone, or zombies.
func waitGone(ts *testscript.TestScript, neg bool, args []string) {
	for _, file := range args {
		pid := pidIn(ts, file)
		poll(ts, "process "+strconv.Itoa(pid)+" is not gone", func() bool { return !alive(pid) })
	}
}

func pidIn(ts *testscript.TestScript, file string) int {
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(file)))
	ts.Check(err)
	if pid <= 1 {
		ts.Fatalf("%s holds no process number", file)
	}
	return pid
}

func alive(pid int) bool {
	if unix.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func poll(ts *testscript.TestScript, failure string, ok func() bool) {
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("%s after %v", failure, patience)
		}
	}
}
