//go:build linux

package exec_test

import (
	"os"
	osexec "os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/boottime"
	"github.com/leaderrun/leaderrun/exec"
)

// Trees that run away from the kill loop.
func TestAdversaries(t *testing.T) {
	for _, c := range []struct{ name, script string }{
		// Each generation forks the next one in a session of its own, and exits.
		{"setsid chain", `cat >"$0.sh" <<'E'
trap "" TERM
setsid sh "$0" &
exit
E
echo ready >&9; sh "$0.sh"; sleep 1000`},
		// Forkers that start short-lived processes in sessions of their own.
		{"forkers", `for i in 1 2 3 4 5 6 7 8; do
sh -c 'trap "" TERM; while :; do setsid sleep 0.005 & done' & done
echo ready >&9; sleep 1000`},
	} {
		for _, who := range []string{"leaderrun", "guard"} {
			t.Run(c.name+", "+who+" killed", func(t *testing.T) {
				l := play(t)
				f := newTree(t)
				command := f.script(c.script)
				command = append(command, t.TempDir()+"/chain")
				l.run(far(), command...)
				f.ready()
				time.Sleep(50 * time.Millisecond) // let it run at full speed
				start := boottime.Now()
				if who == "guard" {
					kill(l.guard, unix.SIGKILL)
				} else {
					l.signal(unix.SIGKILL)
				}
				took := f.gone().Sub(start)
				if took > 5*time.Second {
					t.Errorf("the tree was gone after %v", took)
				}
				t.Logf("gone after %v", took)
			})
		}
	}
}

// As process 1 of a PID namespace: strangers are reaped, the tree dies.
func TestNamespace(t *testing.T) {
	if err := osexec.Command("unshare", "-pf", "--mount-proc", "true").Run(); err != nil {
		t.Skipf("no PID namespace to be had: %v", err)
	}
	l := play(t, func(cmd *osexec.Cmd) {
		unshare, err := osexec.LookPath("unshare")
		if err != nil {
			t.Fatal(err)
		}
		cmd.Args = []string{"unshare", "-pf", "--kill-child", "--mount-proc", cmd.Path}
		cmd.Path = unshare
	})
	l.guard = 0 // its number is one in there
	f := newTree(t)
	l.run(far(), f.script(`trap 'echo TERM >&9' TERM
(setsid sleep 0.01 &)
echo ready >&9
while :; do sleep 0.01; done`)...)
	f.ready()
	l.do("signal", 1, int(unix.SIGTERM))
	if line := f.line(); line != "TERM" {
		t.Errorf("the child said %q, want TERM", line)
	}
	l.do("spawn", "/bin/true")
	l.do("kill", 1)
	l.want(exec.Exited)
	l.want(exec.Gone)
	f.gone()
	l.do("disarm", 1)
	l.do("close")
	if status := l.quit("die", "15"); status.ExitStatus() != 128+15 {
		t.Errorf("process 1 ended with %#x, want status 143: no signal of its own can end it", status)
	}
}

// Without the kernel's lists of children the walk reads all processes: a mount over /proc would be needed to hide the
// lists, so what is shown here is that a wrong /proc is refused.
func TestForeignProc(t *testing.T) {
	if err := osexec.Command("unshare", "-pf", "true").Run(); err != nil {
		t.Skipf("no PID namespace to be had: %v", err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	control, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	read, events, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd := osexec.Command("unshare", "-pf", exe)
	cmd.Env = append(os.Environ(), "TEST_PART=leaderrun")
	cmd.ExtraFiles = []*os.File{control, events}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	control.Close()
	events.Close()
	var text [200]byte
	n, _ := read.Read(text[:])
	if !strings.Contains(string(text[:n]), "mount") {
		t.Errorf("Start in a PID namespace without its /proc: %q, want an error that says to mount one", text[:n])
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it went on")
	}
}

// No pending signals, no kernel timers: an error that names the cure.
func TestNoTimers(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	read, events, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	cmd := osexec.Command("/bin/bash", "-c", "ulimit -i 0; exec "+exe)
	cmd.Env = append(os.Environ(), "TEST_PART=leaderrun")
	cmd.ExtraFiles = []*os.File{null, events}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	events.Close()
	var text [300]byte
	n, _ := read.Read(text[:])
	if !strings.Contains(string(text[:n]), "ulimit -i") {
		t.Errorf("Start without pending signals: %q, want an error that names the limit", text[:n])
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it went on")
	}
}

// What is left when leaderrun and guard were killed at one stroke is found by its mark. Zombies count as dead.
func TestSweep(t *testing.T) {
	mark := "mark-" + strings.ReplaceAll(t.TempDir(), "/", "-")
	start := func(value, script string) (*osexec.Cmd, *tree) {
		f := newTree(t)
		words := f.script(script)
		cmd := osexec.Command(words[0], words[1:]...)
		cmd.Env = append(os.Environ(), "TEST_MARK="+value)
		cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		f.ready()
		return cmd, f
	}
	_, old := start(mark+"/1", `trap "" TERM; sleep 1000 & setsid sleep 1000 & ( (exec setsid sleep 1000) & )
echo ready >&9; sleep 1000`)
	_, other := start("other-"+mark, "echo ready >&9; exec sleep 1000")
	_, present := start(mark+"/2", "echo ready >&9; exec sleep 1000")
	zombie, dead := start(mark+"/1", "echo ready >&9; exec sleep 1000")
	_ = zombie.Process.Kill() // nobody waits for it before the end of the test
	dead.gone()

	l := play(t, func(cmd *osexec.Cmd) { cmd.Env = append(cmd.Env, "TEST_MARK="+mark+"/outer") })
	l.do("sweep", "TEST_MARK", mark+"/", mark+"/2")
	if living := old.living(); living {
		t.Error("Sweep returned while a marked process was left")
	}
	if answer := <-l.answers; answer == "swept 0" {
		t.Error("Sweep killed nothing")
	}
	if !other.living() || !present.living() {
		t.Error("Sweep killed what has another mark")
	}
	l.do("extend", 1, far())
	l.want(exec.Refused) // the guard is there: it carries no mark
	l.do("sweep", "TEST_MARK", mark+"/", mark+"/2")
	if answer := <-l.answers; answer != "swept 0" {
		t.Errorf("%s by a second sweep, want none", answer)
	}
}
