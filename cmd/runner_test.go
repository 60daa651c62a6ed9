package cmd

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/election"
	"github.com/leaderrun/leaderrun/exec"
)

// fakeGuard notes what it is told.
type fakeGuard struct {
	events chan exec.Event
	dead   bool
	err    error
	calls  []string
	closed bool
}

func newFakeGuard() *fakeGuard { return &fakeGuard{events: make(chan exec.Event)} }

func (g *fakeGuard) call(format string, args ...any) error {
	g.calls = append(g.calls, fmt.Sprintf(format, args...))
	if g.dead {
		return exec.ErrGuardGone
	}
	return g.err
}

func (g *fakeGuard) Events() <-chan exec.Event    { return g.events }
func (g *fakeGuard) Alive() bool                  { return !g.dead }
func (g *fakeGuard) Prepare(c exec.Command) error { return g.call("prepare %s", c.Path) }
func (g *fakeGuard) Arm(t exec.Term) error        { return g.call("arm %d %s", t.Token, t.Crash) }
func (g *fakeGuard) Begin(token int64, d exec.Deadline, env []string) error {
	return g.call("begin %d %v %s", token, d, strings.Join(env, " "))
}
func (g *fakeGuard) Extend(token int64, d exec.Deadline) error {
	return g.call("extend %d %v", token, d)
}
func (g *fakeGuard) Signal(token int64, s unix.Signal) error { return g.call("signal %d %v", token, s) }
func (g *fakeGuard) Kill(token int64) error                  { return g.call("kill %d", token) }
func (g *fakeGuard) Disarm(token int64) error                { return g.call("disarm %d", token) }
func (g *fakeGuard) Close() error                            { g.closed = true; return nil }

func newTestRunner(t *testing.T, g *fakeGuard, start func() (guard, error)) *runner {
	t.Helper()
	r := newRunner(g, start, exec.Command{Path: "/bin/x"}, slog.New(slog.DiscardHandler))
	r.env = func(store string, token int64) []string { return []string{fmt.Sprintf("%s=%d", store, token)} }
	r.crash = func(term election.Term) ([]byte, error) { return []byte(term.Store), nil }
	t.Cleanup(func() { r.Close() })
	return r
}

func next(t *testing.T, r *runner) election.ChildEvent {
	t.Helper()
	select {
	case e := <-r.Events():
		return e
	case <-time.After(10 * time.Second):
		t.Fatal("no event")
		return election.ChildEvent{}
	}
}

func TestRunnerCalls(t *testing.T) {
	g := newFakeGuard()
	r := newTestRunner(t, g, nil)
	r.Arm(election.Term{Token: 7, Store: "S", Deadline: election.Deadline{Term: 1, Kill: 2, End: 3}})
	r.Begin(7, election.Deadline{Term: 1, Kill: 2, End: 3})
	r.Extend(7, election.Deadline{Term: 4, Kill: 5, End: 6})
	r.Signal(7, syscall.SIGHUP)
	r.Kill(7)
	r.Disarm(7)
	want := "prepare /bin/x; arm 7 S; begin 7 {1 2 3} S=7; extend 7 {4 5 6}; signal 7 hangup; kill 7; disarm 7"
	if got := strings.Join(g.calls, "; "); got != want {
		t.Fatalf("calls = %s, want %s", got, want)
	}
}

func TestRunnerTranslates(t *testing.T) {
	g := newFakeGuard()
	r := newTestRunner(t, g, nil)
	for _, test := range []struct {
		in   exec.Event
		want election.ChildEvent
	}{
		{exec.Event{Kind: exec.Started, Token: 7, PID: 8}, election.ChildEvent{Kind: election.ChildStarted, Token: 7, PID: 8}},
		{exec.Event{Kind: exec.StartFailed, Token: 7, Err: syscall.ENOENT}, election.ChildEvent{Kind: election.ChildFailed, Token: 7, Err: syscall.ENOENT}},
		{exec.Event{Kind: exec.Exited, Token: 7, Status: 3 << 8}, election.ChildEvent{Kind: election.ChildExited, Token: 7, Status: election.Status{Code: 3}}},
		{exec.Event{Kind: exec.Exited, Token: 7, Status: 9}, election.ChildEvent{Kind: election.ChildExited, Token: 7, Status: election.Status{Signal: syscall.SIGKILL}}},
		{exec.Event{Kind: exec.Lapsed, Token: 7}, election.ChildEvent{Kind: election.ChildLapsed, Token: 7}},
		{exec.Event{Kind: exec.Refused, Token: 7}, election.ChildEvent{Kind: election.ChildRefused, Token: 7}},
		{exec.Event{Kind: exec.Gone, Token: 7}, election.ChildEvent{Kind: election.TreeGone, Token: 7}},
	} {
		g.events <- exec.Event{Kind: exec.Acked, Token: 7}
		g.events <- exec.Event{Kind: exec.Stalled, Token: 7}
		g.events <- test.in
		if got := next(t, r); got != test.want {
			t.Errorf("%v became %+v, want %+v", test.in.Kind, got, test.want)
		}
	}
}

// A guard that died is replaced when the next term is armed, and the new one is prepared.
func TestRunnerReplacesGuard(t *testing.T) {
	first, second := newFakeGuard(), newFakeGuard()
	r := newTestRunner(t, first, func() (guard, error) { return second, nil })
	r.Arm(election.Term{Token: 1})
	first.events <- exec.Event{Kind: exec.GuardDied, Token: 1}
	wantLost(t, r, 1)
	first.dead = true
	r.Arm(election.Term{Token: 2, Store: "S"})
	if !first.closed {
		t.Error("the dead guard was not closed")
	}
	if got, want := strings.Join(second.calls, "; "), "prepare /bin/x; arm 2 S"; got != want {
		t.Fatalf("calls of the second = %s, want %s", got, want)
	}
	second.events <- exec.Event{Kind: exec.Started, Token: 2}
	if got := next(t, r); got.Kind != election.ChildStarted {
		t.Fatalf("event of the second = %+v, want started", got)
	}
}

// When there is no guard to be had, the election learns it, without being blocked by it: that there is no process, and
// that the guard is gone.
func TestRunnerWithoutGuard(t *testing.T) {
	g := newFakeGuard()
	r := newTestRunner(t, g, func() (guard, error) { return nil, errors.New("no more processes") })
	g.dead = true
	r.Arm(election.Term{Token: 2})
	r.Begin(2, election.Deadline{}) // the election may call it before it listens
	wantLost(t, r, 2)
}

// The guard died, unnoticed until now, and the term was given to it.
func TestRunnerGuardDiesUnheard(t *testing.T) {
	g := newFakeGuard()
	r := newTestRunner(t, g, nil)
	r.Arm(election.Term{Token: 2})
	g.dead = true
	r.Begin(2, election.Deadline{})
	g.events <- exec.Event{Kind: exec.GuardDied, Token: 0}
	wantLost(t, r, 2)
}

// Without a term its death is nobody's concern.
func TestRunnerGuardDiesBetweenTerms(t *testing.T) {
	first, second := newFakeGuard(), newFakeGuard()
	r := newTestRunner(t, first, func() (guard, error) { return second, nil })
	r.Arm(election.Term{Token: 1})
	r.Disarm(1)
	first.events <- exec.Event{Kind: exec.GuardDied, Token: 1}
	first.dead = true
	r.Arm(election.Term{Token: 2})
	second.events <- exec.Event{Kind: exec.Started, Token: 2}
	if got := next(t, r); got.Kind != election.ChildStarted {
		t.Fatalf("event = %+v, want started", got)
	}
}

func wantLost(t *testing.T, r *runner, token int64) {
	t.Helper()
	for _, want := range []election.ChildEventKind{election.TreeGone, election.GuardDied} {
		if got := next(t, r); got.Kind != want || got.Token != token {
			t.Fatalf("event = %+v, want kind %v of %d", got, want, token)
		}
	}
}

// A command that cannot be passed on, because it is too long, cannot be started; the guard has no part in it.
func TestRunnerCommandTooLong(t *testing.T) {
	g := newFakeGuard()
	g.err = syscall.E2BIG
	r := newTestRunner(t, g, nil)
	g.err = nil
	r.Arm(election.Term{Token: 2})
	r.Begin(2, election.Deadline{})
	if got := next(t, r); got.Kind != election.ChildFailed || !errors.Is(got.Err, syscall.E2BIG) {
		t.Fatalf("event = %+v, want that the start failed with E2BIG", got)
	}
}

// What the guard is given is enough to end the term as the election would.
func TestWill(t *testing.T) {
	term := election.Term{
		Token: 7, Store: "S", MayStart: 1000, Crash: backends.Crash{Data: []byte("secret")},
		Record: backends.Record{V: 1, MinV: 1, ID: "me", Token: 7, TTL: 10 * time.Second, Beat: 3, Extra: nil},
	}
	data, err := newWill("file:///x", "/m", "/a", term)
	if err != nil {
		t.Fatal(err)
	}
	w, err := readWill(data)
	if err != nil {
		t.Fatal(err)
	}
	if w.Backend != "file:///x" || w.Memory != "/m" || w.Store != "S" || w.Key != "/a" || string(w.Data) != "secret" {
		t.Fatalf("will = %+v", w)
	}
	for _, begun := range []bool{true, false} {
		got, want := w.term.Final(begun, 400), term.Final(begun, 400)
		want.Owe = (want.Owe + time.Millisecond - 1).Truncate(time.Millisecond)
		got.Owe = (got.Owe + time.Millisecond - 1).Truncate(time.Millisecond)
		if got.Token != 7 || got.TTL != want.TTL || got.Released != want.Released || got.Owe != want.Owe || got.Beat != want.Beat {
			t.Fatalf("final record (begun %v) = %+v, want %+v", begun, got, want)
		}
	}
	if _, err := readWill([]byte("{}")); err == nil {
		t.Fatal("a will without a record was read")
	}
}
