package main_test

import (
	"bufio"
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/boottime"
)

var terms = flag.Int("terms", 500, "terms of TestNoOverlap")

// childMode makes this test binary the command of a term.
const childMode = "LEADERRUN_TEST_STAMP"

// stamp is the command: it and a daemon that it starts, in a session of its own, write the token and the time to a file
// again and again. The command ends by itself; the daemon never does.
func stamp(file string) {
	out, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		os.Exit(3)
	}
	token := os.Getenv("LEADERRUN_FENCING_TOKEN")
	line := func(kind string) { fmt.Fprintf(out, "%s %s %d %d\n", kind, token, boottime.Now(), os.Getppid()) }
	if os.Getenv(childMode+"_DAEMON") != "" {
		for {
			line("D")
			time.Sleep(time.Millisecond)
		}
	}
	line("B")
	daemon := exec.Command("/proc/self/exe")
	daemon.Env = append(os.Environ(), childMode+"_DAEMON=1")
	daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := daemon.Start(); err != nil {
		os.Exit(3)
	}
	for end := time.Now().Add(time.Duration(rand.IntN(30)) * time.Millisecond); time.Now().Before(end); {
		line("C")
		time.Sleep(time.Millisecond)
	}
	line("E")
	os.Exit(0)
}

// TestNoOverlap is the promise: many candidates on one key, whoever leads killed or stopped at random moments, and no
// stamp of a term after the first one of a later term.
func TestNoOverlap(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "stamps")
	stop := make(chan struct{})
	var all sync.WaitGroup
	running := func() bool {
		select {
		case <-stop:
			return false
		default:
			return true
		}
	}
	for range 20 {
		all.Go(func() {
			for running() {
				campaign(t, dir, file)
			}
		})
	}
	hits := 0
	all.Go(func() {
		for running() {
			time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
			if hit(file, rand.IntN(20)) {
				hits++
			}
		}
	})
	deadline := time.Now().Add(5 * time.Minute)
	for countTerms(file) < *terms && time.Now().Before(deadline) && !t.Failed() {
		time.Sleep(50 * time.Millisecond)
	}
	close(stop)
	all.Wait()
	endStamping(t, file)
	checkStamps(t, file)
	if hits < *terms/20 {
		t.Errorf("only %d terms were disturbed", hits)
	}
	t.Logf("%d disturbed", hits)
}

// endStamping kills what is left when leaderrun and guard of the last terms were killed at one stroke: nobody comes after
// them on this host to sweep it.
func endStamping(t *testing.T, file string) {
	t.Helper()
	mark := []byte(childMode + "=" + file + "\x00")
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		left := 0
		environs, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, environ := range environs {
			if data, _ := os.ReadFile(environ); bytes.Contains(data, mark) {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(environ)))
				_ = unix.Kill(pid, unix.SIGKILL)
				left++
			}
		}
		if left == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%d processes of this test do not die", left)
			return
		}
	}
}

// campaign is one candidate.
func campaign(t *testing.T, dir, file string) {
	c := exec.Command(filepath.Join(binary, "leaderrun"), "--key", "/k", "--backend", "file://"+filepath.Join(dir, "state"),
		"--ttl", "1s", "--log-level", "error", "--", os.Args[0])
	c.Env = append(os.Environ(), childMode+"="+file, "GORACE=atexit_sleep_ms=10")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Error(err)
		return
	}
	defer log.Close()
	c.Stderr = log
	if err := c.Start(); err != nil {
		t.Error(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid))
		t.Errorf("leaderrun neither leads nor ends: %.40s", stat)
		_ = c.Process.Kill()
		<-ended
	}
}

// hit does something to whoever leads: it kills leaderrun, the guard or both, in either order, tells it to end, or stops
// them for longer than the TTL. It reports whether somebody led.
func hit(file string, how int) bool {
	guard := lastGuard(file)
	leader := parentOf(guard, "lr-guard")
	if parentOf(leader, "leaderrun") == 0 {
		return false
	}
	send := func(sig unix.Signal, pids ...int) {
		for _, pid := range pids {
			_ = unix.Kill(pid, sig)
		}
	}
	switch how {
	case 0, 1, 2, 3:
		send(unix.SIGKILL, leader)
	case 4, 5, 6, 7:
		send(unix.SIGKILL, guard)
	case 8, 9, 10:
		send(unix.SIGKILL, leader, guard)
	case 11, 12, 13:
		send(unix.SIGKILL, guard, leader)
	case 14, 15:
		send(unix.SIGTERM, leader)
	case 16:
		send(unix.SIGSTOP, leader)
	case 17:
		send(unix.SIGSTOP, guard)
	case 18:
		send(unix.SIGSTOP, guard, leader)
	case 19:
		send(unix.SIGSTOP, leader)
		send(unix.SIGKILL, guard)
	}
	if how >= 16 {
		// A leader wakes by itself. One whose term was over when it was stopped does not, and need not.
		time.Sleep(2 * time.Second)
		if parentOf(leader, "leaderrun") != 0 {
			send(unix.SIGCONT, leader)
		}
	}
	return true
}

// lastGuard is the parent of the command that began last, as it wrote it.
func lastGuard(file string) int {
	data, _ := os.ReadFile(file)
	i := strings.LastIndex(string(data), "B ")
	if i < 0 {
		return 0
	}
	line, _, _ := strings.Cut(string(data[i:]), "\n")
	fields := strings.Fields(line)
	pid, _ := strconv.Atoi(fields[len(fields)-1])
	return pid
}

// parentOf is the parent of a process, if the process has this name; else 0. A number that was given to another process
// meanwhile must not be hit.
func parentOf(pid int, name string) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	before, after, ok := strings.Cut(string(stat), ") ")
	if err != nil || pid <= 1 || !ok || !strings.HasSuffix(before, "("+name) {
		return 0
	}
	parent, _ := strconv.Atoi(strings.Fields(after)[1])
	return parent
}

func countTerms(file string) int {
	data, _ := os.ReadFile(file)
	return strings.Count(string(data), "B ")
}

type stampLine struct {
	kind  string
	token int64
	at    boottime.Time
}

func checkStamps(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var stamps []stampLine
	begun := map[int64]int{}
	for in := bufio.NewReader(f); ; {
		var s stampLine
		var parent int
		if _, err := fmt.Fscanf(in, "%s %d %d %d\n", &s.kind, &s.token, &s.at, &parent); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("stamp: %v", err)
		}
		stamps = append(stamps, s)
		if s.kind == "B" {
			begun[s.token]++
		}
	}
	if len(begun) < *terms {
		t.Errorf("%d terms, want %d", len(begun), *terms)
	}
	for token, n := range begun {
		if n > 1 {
			t.Errorf("token %d was given to %d commands", token, n)
		}
	}
	slices.SortStableFunc(stamps, func(a, b stampLine) int { return cmp.Compare(a.at, b.at) })
	for i := 1; i < len(stamps); i++ {
		if a, b := stamps[i-1], stamps[i]; b.token < a.token {
			t.Errorf("a process of term %d (%s) was alive at %d, after term %d had begun (%s at %d)", b.token, b.kind, b.at, a.token, a.kind, a.at)
		}
	}
	t.Logf("%d terms, %d stamps", len(begun), len(stamps))
}
