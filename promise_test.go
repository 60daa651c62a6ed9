package main_test

import (
	"bufio"
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

var terms = flag.Int("terms", 100, "terms of TestNoOverlap")

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
	line := func(kind string) { fmt.Fprintf(out, "%s %s %d\n", kind, token, boottime.Now()) }
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

// TestNoOverlap is the promise: many candidates on one key, killed at random moments, and no stamp of a term after the
// first one of a later term.
func TestNoOverlap(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "stamps")
	stop := make(chan struct{})
	var candidates sync.WaitGroup
	for range 20 {
		candidates.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					campaign(t, dir, file)
				}
			}
		})
	}
	deadline := time.Now().Add(5 * time.Minute)
	for countTerms(file) < *terms && time.Now().Before(deadline) && !t.Failed() {
		time.Sleep(50 * time.Millisecond)
	}
	close(stop)
	candidates.Wait()
	checkStamps(t, file)
}

// campaign is one candidate. Some of them, or their guards, or both, are killed or stopped.
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
	defer func() {
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Errorf("leaderrun %d neither leads nor ends", c.Process.Pid)
			kill(c.Process.Pid, unix.SIGKILL)
			<-ended
		}
	}()
	pick := rand.IntN(10)
	if pick >= 4 {
		return
	}
	select {
	case err := <-ended:
		ended <- err
	case <-time.After(time.Duration(rand.IntN(400)) * time.Millisecond):
		guard := guardOf(c.Process.Pid)
		pid := c.Process.Pid
		switch pick {
		case 0:
			kill(pid, unix.SIGKILL)
		case 1:
			kill(guard, unix.SIGKILL)
		case 2:
			kill(pid, unix.SIGKILL)
			kill(guard, unix.SIGKILL)
		case 3:
			kill(pid, unix.SIGTERM)
		}
	}
}

func kill(pid int, sig unix.Signal) {
	if pid > 1 {
		_ = unix.Kill(pid, sig)
	}
}

// guardOf is the guard of a leaderrun, 0 if there is none yet.
func guardOf(pid int) int {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		data, _ := os.ReadFile(file)
		for _, child := range strings.Fields(string(data)) {
			comm, _ := os.ReadFile("/proc/" + child + "/comm")
			if strings.HasPrefix(string(comm), "lr-guard") {
				n, _ := strconv.Atoi(child)
				return n
			}
		}
	}
	return 0
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
		if _, err := fmt.Fscanf(in, "%s %d %d\n", &s.kind, &s.token, &s.at); err == io.EOF {
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
