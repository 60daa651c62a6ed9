package file_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/file"
)

// helper is the test binary as another process. It speaks lines, and ends at the end of its stdin.
func helper(mode string) int {
	dir := os.Getenv("LEADERRUN_FILE_TEST_DIR")
	var err error
	switch mode {
	case "hold":
		err = hold(dir, false)
	case "hold with a guard":
		err = hold(dir, true)
	case "guard":
		err = guard(dir)
	case "terms":
		err = terms(dir, os.Getenv("LEADERRUN_FILE_TEST_LOG"))
	case "nobody":
		err = nobody(dir)
	default:
		err = fmt.Errorf("no mode %q", mode)
	}
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	return 0
}

// hold leads until it is told to end.
func hold(dir string, guarded bool) error {
	e, r, _, err := campaign(dir)
	if err != nil {
		return err
	}
	if guarded {
		crash := e.Crash()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "LEADERRUN_FILE_TEST=guard",
			"LEADERRUN_FILE_TEST_TICKET="+string(crash.Data), fmt.Sprint("LEADERRUN_FILE_TEST_TOKEN=", r.Token))
		cmd.Stdin, cmd.Stdout, cmd.ExtraFiles = os.Stdin, os.Stdout, crash.Files
		if err := cmd.Start(); err != nil {
			return err
		}
		defer cmd.Wait()
	}
	fmt.Println("token", r.Token, os.Getpid())
	if guarded {
		select {} // until killed
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// guard has the lock's descriptor and hands the term back at the end of its stdin.
func guard(dir string) error {
	_, _ = io.Copy(io.Discard, os.Stdin)
	b, err := file.Open(dir, file.Options{})
	if err != nil {
		return err
	}
	var r backends.Record
	if _, err := fmt.Sscan(os.Getenv("LEADERRUN_FILE_TEST_TOKEN"), &r.Token); err != nil {
		return err
	}
	r.V, r.MinV, r.TTL, r.Released, r.Host = 1, 1, ttl, true, "guard"
	return b.Handback(context.Background(), backends.Crash{
		Data:  []byte(os.Getenv("LEADERRUN_FILE_TEST_TICKET")),
		Files: []*os.File{os.NewFile(3, "lease")},
	}, r)
}

// terms leads again and again, and notes each begin and end.
func terms(dir, log string) error {
	f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		e, r, version, err := campaign(dir)
		if err != nil {
			return err
		}
		fmt.Fprintln(f, "begin", r.Token)
		if version, err = e.Beat(context.Background(), r, version); err != nil {
			return err
		}
		fmt.Fprintln(f, "end", r.Token)
		if r.Released = true; r.Token%3 > 0 {
			if err := e.Release(context.Background(), r, version); err != nil {
				return err
			}
		}
		if err := e.Leave(context.Background()); err != nil {
			return err
		}
	}
}

func campaign(dir string) (e backends.Entry, r backends.Record, version backends.Version, err error) {
	ctx := context.Background()
	b, err := file.Open(dir, file.Options{})
	if err != nil {
		return e, r, version, err
	}
	if e, err = b.Enter(ctx, candidate("helper")); err != nil {
		return e, r, version, err
	}
	for {
		v, err := e.View(ctx)
		if err != nil {
			return e, r, version, err
		}
		if v.Place == 0 {
			r = record(v)
			version, err = e.Acquire(ctx, r, v.Version)
			return e, r, version, err
		}
		<-e.Events()
	}
}

// nobody tries what it can as another user, and reports each outcome on one line.
func nobody(dir string) error {
	if err := errors.Join(unix.Setgroups(nil), unix.Setgid(65534), unix.Setuid(65534)); err != nil {
		return err
	}
	report := func(what string, err error) {
		var hint backends.Hinter
		line := map[string]any{"what": what, "error": fmt.Sprint(err), "denied": errors.Is(err, backends.ErrDenied), "hint": errors.As(err, &hint)}
		out, _ := json.Marshal(line)
		fmt.Println(string(out))
	}
	b, err := file.Open(dir, file.Options{})
	report("open", err)
	if err == nil {
		_, err = b.Enter(context.Background(), candidate("nobody"))
		report("enter", err)
	}
	_, err = file.Open(dir+"/below", file.Options{})
	report("open below", err)
	_, err = file.OpenMemory(dir)
	report("memory", err)
	return nil
}

// process is a helper that runs.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
}

func start(t *testing.T, mode, dir string, env ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append(env, "LEADERRUN_FILE_TEST="+mode, "LEADERRUN_FILE_TEST_DIR="+dir, "GORACE=atexit_sleep_ms=10")...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd, stdin, bufio.NewReader(stdout)}
	t.Cleanup(p.kill)
	return p
}

// kill kills the process and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.stdin.Close()
	_ = p.cmd.Wait()
}

// token reads the line that says which term the process leads, and its pid.
func (p *process) token(t *testing.T) (token int64, pid int) {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if _, scan := fmt.Sscanf(line, "token %d %d", &token, &pid); err != nil || scan != nil {
		t.Fatalf("the helper said %q, %v", line, err)
	}
	return token, pid
}

func (p *process) lines(t *testing.T) []string {
	t.Helper()
	all, err := io.ReadAll(p.out)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(all)), "\n")
}

// within polls a condition.
func within(t *testing.T, what string, d time.Duration, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(d); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", d, what)
		}
	}
}
