//go:build linux

package exec_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/exec"
)

// inherited prints everything about a process that it has from its parent.
const inherited = `grep -E '^(Sig(Blk|Ign)|Umask|Groups|CapEff|Seccomp|VmLck)' /proc/self/status
ulimit -aS; ulimit -aH; nice; cat /proc/self/oom_score_adj; pwd; echo "$0" "$@"; cut -d' ' -f41 /proc/self/stat
find /proc/$$/fd -printf '%f %l\n'
cat <&5; cat; env | grep -v -e ^TEST_ -e ^_= -e ^GORACE= | sort`

// The child sees what it would see without us. Each row prepares the shell that starts both.
func TestInherits(t *testing.T) {
	for _, c := range []struct{ name, setup string }{
		{"plain", ""},
		{"ignored HUP", `trap "" HUP`},
		{"ignored INT and QUIT", `trap "" INT QUIT`},
		{"nice", "renice -n 5 $$ >/dev/null"},
		{"limits", "ulimit -Sn 300; ulimit -Sc 0"},
		{"few files", "ulimit -n 40"},
		{"umask", "umask 077"},
		{"OOM score", "echo 200 > /proc/self/oom_score_adj"},
		{"descriptors", "exec 7</dev/zero 9</etc/hostname 250</dev/null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			extra := filepath.Join(dir, "extra")
			if err := os.WriteFile(extra, []byte("extra\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			script := filepath.Join(dir, "print")
			if err := os.WriteFile(script, []byte(inherited), 0o600); err != nil {
				t.Fatal(err)
			}
			before := c.setup + "\nexec 5<" + extra + "\ncd " + dir + "\n"

			direct := osexec.Command("bash", "-c", before+"exec sh "+script+" one 'two words'")
			direct.Env = append(os.Environ(), "A=1")
			direct.Stdin = strings.NewReader("input\n")
			want, err := direct.CombinedOutput()
			if err != nil {
				t.Fatalf("without us: %v\n%s", err, want)
			}

			got := filepath.Join(dir, "got")
			l := play(t, func(cmd *osexec.Cmd) {
				cmd.Args = []string{"bash", "-c", before + "exec " + cmd.Path}
				cmd.Path = "/bin/bash"
				cmd.Stdin = strings.NewReader("input\n")
				cmd.Env = append(cmd.Env, "A=0", "LEADERRUN_TERM=outer")
				cmd.Stdout, _ = os.Create(got)
				cmd.Stderr = cmd.Stdout
			})
			l.do("prepare", "/bin/sh", script, "one", "two words")
			l.do("arm", 1, far())
			l.do("begin", 1, far(), "A=1")
			l.want(exec.Started)
			l.want(exec.Exited)
			text, err := os.ReadFile(got)
			if err != nil {
				t.Fatal(err)
			}
			text = bytes.ReplaceAll(text, []byte("LEADERRUN_TERM=outer\n"), nil)
			diff(t, want, text, got)
		})
	}
}

// diff compares what two children saw, but for pipes and where their output goes.
func diff(t *testing.T, want, got []byte, output string) {
	t.Helper()
	lines := func(b []byte) map[string]bool {
		m := map[string]bool{}
		for line := range strings.SplitSeq(string(b), "\n") {
			if !strings.Contains(line, " pipe:") && !strings.HasSuffix(line, output) {
				m[line] = true
			}
		}
		return m
	}
	w, g := lines(want), lines(got)
	for line := range w {
		if !g[line] {
			t.Errorf("the child did not see %q", line)
		}
	}
	for line := range g {
		if !w[line] {
			t.Errorf("the child saw %q, which it would not without us", line)
		}
	}
	if len(w) < 40 {
		t.Errorf("only %d lines were compared", len(w))
	}
}

func TestStartFails(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "bad")
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	extra := filepath.Join(dir, "data")
	if err := os.WriteFile(extra, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("exit $1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	l := play(t)
	l.do("arm", 1, far())
	for path, want := range map[string]error{
		"/no/such/file": unix.ENOENT,
		dir:             unix.EACCES,
		script:          unix.ENOENT,
		extra:           unix.EACCES,
		plain + "/x":    unix.ENOTDIR,
	} {
		l.do("prepare", path)
		l.do("begin", 1, far())
		if e := l.want(exec.StartFailed); e.err != want.Error() {
			t.Errorf("start %s: %s, want %v", path, e.err, want)
		}
		l.want(exec.Gone)
	}
	l.do("prepare", plain, "9") // no #! line: as a shell would run it
	l.do("begin", 1, far())
	l.want(exec.Started)
	if e := l.want(exec.Exited); e.status.ExitStatus() != 9 {
		t.Errorf("exited %+v, want status 9", e)
	}
}

// More than a megabyte and a half of arguments and environment.
func TestLargeCommand(t *testing.T) {
	l := play(t)
	big := strings.Repeat("x", 100_000)
	command := []string{"/bin/sh", "-c", `test "$(printf %s "$A" | wc -c)" = 100000 -a $# = 8`, "sh"}
	var env []string
	for i := range 8 {
		command = append(command, big)
		env = append(env, string(rune('A'+i))+"="+big)
	}
	l.do("prepare", command)
	l.do("arm", 1, far())
	l.do("begin", 1, far(), env)
	l.want(exec.Started)
	if e := l.want(exec.Exited); e.status.ExitStatus() != 0 {
		t.Errorf("exited %+v, want status 0: the child got something else", e)
	}
	l.want(exec.Gone)
	for range 2 {
		env = append(env, env...)
	}
	l.do("begin", 1, far(), env)
	if e := l.want(exec.StartFailed); e.err != unix.E2BIG.Error() {
		t.Errorf("start with 4 MB: %s, want %v", e.err, unix.E2BIG)
	}
}

// A signal goes to the child, once, and to nobody else.
func TestSignal(t *testing.T) {
	l := play(t)
	f := newTree(t)
	child := l.run(far(), f.script(`trap 'echo grandchild >&9' USR1 USR2 HUP INT TERM
sh -c 'while :; do sleep 0.01; done' &
for s in USR1 USR2 HUP INT TERM QUIT; do trap "echo $s >&9" $s; done
echo ready >&9; while :; do sleep 0.01; done`)...)
	f.ready()
	for _, s := range []unix.Signal{unix.SIGUSR1, unix.SIGUSR2, unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGUSR1} {
		l.do("signal", 1, int(s))
		if line, want := f.line(), strings.TrimPrefix(unix.SignalName(s), "SIG"); line != want {
			t.Errorf("the child got %s, want %s", line, want)
		}
	}
	l.do("signal", 2, int(unix.SIGKILL)) // another term
	l.do("signal", 1, int(unix.SIGTERM))
	if line := f.line(); line != "TERM" {
		t.Errorf("the child got %s, want TERM", line)
	}
	if pgid, _ := unix.Getpgid(child.pid); pgid != child.pid {
		t.Errorf("the child is in group %d, want its own: there is no terminal", pgid)
	}
}

// A reader of the child's output sees its end when leaderrun is gone, also when it crashed.
func TestPipeEnds(t *testing.T) {
	for _, how := range []string{"exit", "crash"} {
		t.Run(how, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			l := play(t, func(cmd *osexec.Cmd) { cmd.Stdout = w })
			w.Close()
			l.run(far(), "/bin/sh", "-c", "echo out; sleep 1000 & exit 0")
			l.want(exec.Exited)
			l.want(exec.Gone)
			if how == "exit" {
				l.do("disarm", 1)
				l.quit("exit", "0")
			} else {
				l.signal(unix.SIGKILL)
			}
			_ = r.SetReadDeadline(time.Now().Add(patience))
			if text, err := io.ReadAll(r); err != nil || string(text) != "out\n" {
				t.Errorf("read %q, %v, want out and the end", text, err)
			}
		})
	}
}

// Guard and sentinel are not hit by what is meant for leaderrun.
func TestGuardHides(t *testing.T) {
	l := play(t)
	f := newTree(t)
	l.run(far(), f.script("echo ready >&9; sleep 1000")...)
	f.ready()
	read := func(name string) string {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", l.guard, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if name := strings.TrimSpace(read("comm")); name != "lr-guard" {
		t.Errorf("the guard is called %q, want lr-guard", name)
	}
	if line := read("cmdline"); strings.Contains(line, "leaderrun") || !strings.HasPrefix(line, "lr-guard\x00") {
		t.Errorf("the guard's arguments are %q", line)
	}
	if strings.Contains(read("environ"), "LEADERRUN_TERM=") {
		t.Error("the guard carries a mark")
	}
	if pgid, _ := unix.Getpgid(l.guard); pgid != l.guard {
		t.Errorf("the guard is in group %d, want its own", pgid)
	}
	if sid, _ := unix.Getsid(l.guard); sid != l.cmd.Process.Pid {
		t.Errorf("the guard is in session %d, want leaderrun's %d", sid, l.cmd.Process.Pid)
	}
	for _, s := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU,
		unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE, unix.SIGWINCH} {
		kill(l.guard, s)
	}
	l.do("extend", 1, far())
	l.want(exec.Acked)
	if !f.living() || state(l.guard) == 'T' {
		t.Error("a signal had an effect on the guard")
	}
}

// The guard leaves what the shell had started before it executed leaderrun, and leaderrun reaps its strangers.
func TestStrangers(t *testing.T) {
	out := filepath.Join(t.TempDir(), "pid")
	l := play(t, func(cmd *osexec.Cmd) {
		cmd.Args = []string{"sh", "-c", "sleep 1000 & echo $! >" + out + "; exec " + cmd.Path}
		cmd.Path = "/bin/sh"
	})
	var before int
	text, _ := os.ReadFile(out)
	if _, err := fmt.Sscan(string(text), &before); err != nil {
		t.Fatal(err)
	}
	defer kill(before, unix.SIGKILL)
	l.do("spawn", "/bin/true")
	var spawned int
	if _, err := fmt.Sscanf(<-l.answers, "spawned %d", &spawned); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stranger to be reaped", func() bool { return state(spawned) == 0 })

	f := newTree(t)
	l.run(far(), f.stubborn()...)
	f.ready()
	kill(l.guard, unix.SIGKILL)
	f.gone()
	l.want(exec.Exited)
	l.want(exec.Gone)
	l.want(exec.GuardDied)
	if !alive(before) {
		t.Error("a child that leaderrun had before was killed")
	}
}
