package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a real one, of tmux, with an interactive bash in a directory of its own.
type terminal struct {
	t      *testing.T
	socket string
	dir    string
}

func newTerminal(t *testing.T, files map[string]string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("there is no tmux")
	}
	term := &terminal{t: t, dir: t.TempDir(), socket: filepath.Join(t.TempDir(), "s")}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(term.dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := term.tmux("-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40", "bash", "--norc", "--noprofile", "-i")
	c.Dir = term.dir
	c.Env = append(os.Environ(), "PS1=$ ", "HISTFILE=", "TERM=xterm", "GORACE=atexit_sleep_ms=10",
		"PATH="+binary+string(os.PathListSeparator)+os.Getenv("PATH"), "LEADERRUN_STATE_DIR="+filepath.Join(term.dir, "state"))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("tmux: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the screen:\n%s", term.screen())
		}
		_ = term.tmux("kill-server").Run()
	})
	term.line("echo ready$((1+1))")
	term.waitScreen("ready2")
	return term
}

func (term *terminal) tmux(args ...string) *exec.Cmd {
	return exec.Command("tmux", append([]string{"-S", term.socket}, args...)...)
}

// line types a line.
func (term *terminal) line(text string) {
	term.t.Helper()
	if err := term.tmux("send-keys", "-l", text).Run(); err != nil {
		term.t.Fatal(err)
	}
	term.key("Enter")
}

// key presses one, as tmux names it.
func (term *terminal) key(name string) {
	term.t.Helper()
	if err := term.tmux("send-keys", name).Run(); err != nil {
		term.t.Fatal(err)
	}
}

func (term *terminal) screen() string {
	out, _ := term.tmux("capture-pane", "-p", "-S", "-").Output()
	return string(out)
}

func (term *terminal) waitScreen(text string) {
	term.t.Helper()
	term.wait("the screen does not show "+text, func() bool { return strings.Contains(term.screen(), text) })
}

// waitShell waits until the shell shows its prompt: what is typed while it changes the terminal's mode may be lost.
func (term *terminal) waitShell() {
	term.t.Helper()
	term.wait("the shell does not read", func() bool {
		return strings.HasSuffix(strings.TrimRight(term.screen(), " \n"), "\n$")
	})
}

// waitPrompt waits until the shell reads again.
func (term *terminal) waitPrompt() {
	term.t.Helper()
	term.line("touch prompt")
	term.waitFile("prompt")
}

func (term *terminal) path(name string) string { return filepath.Join(term.dir, name) }

func (term *terminal) waitFile(name string) {
	term.t.Helper()
	term.wait("there is no "+name, func() bool { _, err := os.Stat(term.path(name)); return err == nil })
}

func (term *terminal) wait(failure string, ok func() bool) {
	term.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			term.t.Fatalf("%s after %v", failure, patience)
		}
	}
}

func (term *terminal) read(name string) string {
	data, _ := os.ReadFile(term.path(name))
	return string(data)
}

func (term *terminal) touch(name string) {
	term.t.Helper()
	if err := os.WriteFile(term.path(name), nil, 0o644); err != nil {
		term.t.Fatal(err)
	}
}

// leader is the leaderrun whose command wrote its parent, the guard, into the file guard.
func (term *terminal) leader() int {
	term.t.Helper()
	guard, _ := strconv.Atoi(strings.TrimSpace(term.read("guard")))
	leader := parentOf(guard, "lr-guard")
	if parentOf(leader, "leaderrun") == 0 {
		term.t.Fatal("there is no leaderrun")
	}
	return leader
}

// waitForeground waits until leaderrun has the terminal. What is typed before is read in the shell's raw mode, where Enter
// ends no line.
func (term *terminal) waitForeground() {
	term.t.Helper()
	leader := term.leader()
	term.wait("leaderrun is not in the foreground", func() bool {
		stat, _ := os.ReadFile("/proc/" + strconv.Itoa(leader) + "/stat")
		_, after, _ := strings.Cut(string(stat), ") ")
		f := strings.Fields(after) // state, parent, group, session, terminal, the terminal's foreground group
		return len(f) > 5 && f[0] != "T" && f[2] == f[5]
	})
	time.Sleep(50 * time.Millisecond)
}

// hasChild reports whether a process has a child of this name.
func hasChild(pid int, name string) bool {
	files, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, file := range files {
		data, _ := os.ReadFile(file)
		for _, child := range strings.Fields(string(data)) {
			n, _ := strconv.Atoi(child)
			if parentOf(n, name) == pid {
				return true
			}
		}
	}
	return false
}

// counter notes each signal, and ends when it may.
const counter = `#!/bin/sh
for s in INT TERM HUP QUIT; do trap "echo $s >>got" $s; done
echo $PPID >guard
touch up
while [ ! -e finish ]; do sleep 0.02; done
`

// TestTerminalSignals: each signal reaches the command exactly once, whoever sent it to whom.
func TestTerminalSignals(t *testing.T) {
	for _, test := range []struct {
		name, command string
		send          func(*terminal)
		want          string
	}{
		{"Ctrl-C", "leaderrun -k /a -- ./counter", func(term *terminal) { term.key("C-c") }, "INT\n"},
		{"Ctrl-backslash", "leaderrun -k /a -- ./counter", func(term *terminal) { term.key(`C-\`) }, "QUIT\n"},
		{"INT to leaderrun alone", "leaderrun -k /a -- ./counter", func(term *terminal) { _ = unix.Kill(term.leader(), unix.SIGINT) }, "INT\n"},
		{"TERM to leaderrun alone", "leaderrun -k /a -- ./counter", func(term *terminal) { _ = unix.Kill(term.leader(), unix.SIGTERM) }, "TERM\n"},
		{"HUP to leaderrun alone", "leaderrun -k /a -- ./counter", func(term *terminal) { _ = unix.Kill(term.leader(), unix.SIGHUP) }, "HUP\n"},
		{"kill %1", "leaderrun -k /a -- ./counter &", func(term *terminal) { term.line("kill %1") }, "TERM\n"},
		{"Ctrl-C in a pipeline", "cat | leaderrun -k /a -- ./counter | cat", func(term *terminal) { term.key("C-c") }, "INT\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			term := newTerminal(t, map[string]string{"counter": counter})
			term.line(test.command)
			term.waitFile("up")
			leader := term.leader()
			// It starts beside the command, and until then signals are guessed.
			term.wait("there is no sentinel", func() bool { return hasChild(leader, "lr-sentinel") })
			time.Sleep(100 * time.Millisecond)
			test.send(term)
			term.wait("the command got nothing", func() bool { return term.read("got") != "" })
			term.touch("finish")
			term.wait("leaderrun has not ended", func() bool { return !alive(leader) })
			if got := term.read("got"); got != test.want {
				t.Fatalf("the command got %q, want %q", got, test.want)
			}
		})
	}
}

func TestTerminalJobControl(t *testing.T) {
	const reader = "#!/bin/sh\necho $$ >pid\necho $PPID >guard\ntouch up\nread x\necho got:$x\n"
	t.Run("Ctrl-Z and fg", func(t *testing.T) {
		t.Parallel()
		term := newTerminal(t, map[string]string{"reader": reader})
		term.line("leaderrun -k /a -- ./reader")
		term.waitFile("up")
		term.key("C-z")
		term.waitScreen("Stopped")
		term.waitShell()
		term.line("jobs")
		term.line("fg")
		term.waitForeground()
		term.line("hello")
		term.waitScreen("got:hello")
		term.waitPrompt()
	})
	t.Run("Ctrl-Z and bg and fg", func(t *testing.T) {
		t.Parallel()
		term := newTerminal(t, map[string]string{"reader": reader})
		term.line("leaderrun -k /a -- ./reader")
		term.waitFile("up")
		term.key("C-z")
		term.waitScreen("Stopped")
		term.waitShell()
		term.line("bg")
		term.waitScreen("leaderrun -k /a -- ./reader &")
		term.line("fg")
		term.waitForeground()
		term.line("hello")
		term.waitScreen("got:hello")
		term.waitPrompt()
	})
	t.Run("background", func(t *testing.T) {
		t.Parallel()
		term := newTerminal(t, map[string]string{"reader": reader})
		term.line("leaderrun -k /a -- ./reader &")
		term.waitFile("up")
		term.wait("it was not stopped", func() bool {
			term.line("jobs")
			return strings.Contains(term.screen(), "Stopped")
		})
		term.line("fg")
		term.waitForeground()
		term.line("hello")
		term.waitScreen("got:hello")
		term.waitPrompt()
	})
	t.Run("Ctrl-Z for longer than the TTL", func(t *testing.T) {
		t.Parallel()
		term := newTerminal(t, map[string]string{"reader": reader})
		term.line("leaderrun -k /a --ttl 1s -- ./reader")
		term.waitFile("up")
		term.key("C-z")
		term.waitScreen("Stopped")
		pid, _ := strconv.Atoi(strings.TrimSpace(term.read("pid")))
		term.wait("the command lives on", func() bool { return !alive(pid) })
		term.line("leaderrun -k /a -- touch next")
		term.waitFile("next")
		term.waitPrompt()
	})
}

func TestTerminalPipes(t *testing.T) {
	t.Run("stdin", func(t *testing.T) {
		t.Parallel()
		term := newTerminal(t, nil)
		term.line("cat | leaderrun -k /a -- sed s/x/y/")
		term.line("axb")
		term.key("C-d")
		term.waitScreen("ayb")
		term.waitPrompt()
	})
	t.Run("pager", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("less"); err != nil {
			t.Skip("there is no less")
		}
		term := newTerminal(t, nil)
		term.line("leaderrun -k /a --log-level error -- seq 1000 | less")
		term.waitScreen("\n30\n")
		term.key("q")
		term.waitPrompt()
	})
	t.Run("command substitution", func(t *testing.T) {
		t.Parallel()
		term := newTerminal(t, map[string]string{"ask": "#!/bin/sh\ntouch up\nread y </dev/tty\necho v:$y\n"})
		term.line("x=$(leaderrun -k /a -- ./ask)")
		term.waitFile("up")
		term.line("deep")
		term.line(`echo "[$x]"`)
		term.waitScreen("[v:deep]")
	})
}

// A script ends at Ctrl-C only when leaderrun dies by the signal.
func TestTerminalScript(t *testing.T) {
	t.Parallel()
	term := newTerminal(t, map[string]string{
		"script": "#!/bin/bash\nleaderrun -k /a -- sh -c 'touch up; exec sleep 60'\ntouch after\n",
	})
	term.line("./script")
	term.waitFile("up")
	term.key("C-c")
	term.waitPrompt()
	if _, err := os.Stat(term.path("after")); err == nil {
		t.Fatal("the script went on after Ctrl-C")
	}
}

// The terminal is sane after a command that had changed it was killed, because the lease was lost or we were told to.
func TestTerminalIsRestored(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*terminal){
		"lease lost": func(term *terminal) { _ = os.Remove(term.path("state/a.lease")) },
		"killed":     func(term *terminal) { _ = unix.Kill(term.leader(), unix.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			term := newTerminal(t, map[string]string{
				"raw": "#!/bin/sh\ntrap '' TERM\necho $PPID >guard\nstty raw -echo\ntouch up\nwhile :; do sleep 0.05; done\n",
				// bash itself puts the terminal right when a job dies by a signal: it must not be the one that does.
				"run": "#!/bin/sh\nstty -a >before\nleaderrun -k /a --ttl 1s --stop-timeout 200ms -- ./raw\nstty -a >after.tmp\nmv after.tmp after\n",
			})
			term.line("./run")
			term.waitFile("up")
			end(term)
			term.waitFile("after")
			if before, after := term.read("before"), term.read("after"); before != after || !strings.Contains(before, " icanon") {
				t.Fatalf("stty before:\n%safter:\n%s", before, after)
			}
		})
	}
}

// The terminal is closed: the command gets HUP, as without us, and nothing is left.
func TestTerminalCloses(t *testing.T) {
	t.Parallel()
	term := newTerminal(t, nil)
	term.line("leaderrun -k /a -- sh -c 'echo $$ >pid; echo $PPID >guard; sleep 1000 & echo $! >pid2; touch up; wait'")
	term.waitFile("up")
	leader := term.leader()
	if err := term.tmux("kill-session").Run(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pid", "pid2"} {
		pid, _ := strconv.Atoi(strings.TrimSpace(term.read(name)))
		term.wait("the command lives on", func() bool { return !alive(pid) })
	}
	term.wait("leaderrun has not ended", func() bool { return !alive(leader) })
}

func TestTerminalNohup(t *testing.T) {
	t.Parallel()
	term := newTerminal(t, nil)
	term.line("nohup leaderrun -k /a -- sh -c 'echo $PPID >guard; touch up; while [ ! -e finish ]; do sleep 0.02; done; touch finished' >log 2>&1 &")
	term.waitFile("up")
	leader := term.leader()
	if err := term.tmux("kill-session").Run(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond) // a HUP would have come by then
	if !alive(leader) {
		t.Fatal("it ended with the terminal")
	}
	term.touch("finish")
	term.waitFile("finished")
	term.wait("leaderrun has not ended", func() bool { return !alive(leader) })
}
