package cmd

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/election"
	"github.com/leaderrun/leaderrun/exec"
)

func TestEnd(t *testing.T) {
	wrap := func(err error) error { return storeError{fmt.Errorf("while at it: %w", err)} }
	for _, test := range []struct {
		name   string
		result election.Result
		err    error
		want   ending
	}{
		{"success", election.Result{Ran: true}, nil, ending{}},
		{"code", election.Result{Ran: true, Status: election.Status{Code: 7}}, nil, ending{code: 7}},
		{"signal", election.Result{Ran: true, Status: election.Status{Signal: syscall.SIGKILL}}, nil, ending{137, syscall.SIGKILL}},
		{"usage", election.Result{}, usage(errors.New("x"), ""), ending{code: 64}},
		{"key", election.Result{}, wrap(backends.CheckKey("x")), ending{code: 64}},
		{"durations", election.Result{}, usage(election.Timing{TTL: 1}.WithDefaults().Validate(), ""), ending{code: 64}},
		{"unavailable", election.Result{}, wrap(backends.ErrUnavailable), ending{code: 69}},
		{"store", election.Result{}, wrap(errors.New("torn")), ending{code: 69}},
		{"unexpected", election.Result{}, errors.New("what?"), ending{code: 70}},
		{"not elected", election.Result{}, wrap(election.ErrNotElected), ending{code: 3}},
		{"lost", election.Result{Ran: true, Status: election.Status{Code: 9}}, wrap(election.ErrLeaseLost), ending{code: 76}},
		{"denied", election.Result{}, wrap(backends.ErrDenied), ending{code: 77}},
		{"stale", election.Result{}, wrap(election.ErrStaleToken), ending{code: 78}},
		{"newer", election.Result{}, wrap(election.ErrNewerFormat), ending{code: 78}},
		{"not executable", election.Result{}, &exec.NotExecutable{File: "x", Err: syscall.EACCES}, ending{code: 126}},
		{"not found", election.Result{}, &exec.NotFound{File: "x"}, ending{code: 127}},
		{"bad interpreter", election.Result{}, wrap(&election.StartError{Err: syscall.ENOENT}), ending{code: 127}},
		{"bad format", election.Result{}, wrap(&election.StartError{Err: syscall.ENOEXEC}), ending{code: 126}},
		{"stopped", election.Result{}, wrap(&election.StoppedError{Signal: syscall.SIGTERM}), ending{143, syscall.SIGTERM}},
	} {
		if got := end(test.result, test.err, 3); got != test.want {
			t.Errorf("%s: end = %v, want %v", test.name, got, test.want)
		}
	}
}

// TestExitStatusOfTheManual holds the codes against the manual's section: each once, in order, and no other.
func TestExitStatusOfTheManual(t *testing.T) {
	_, section, ok := strings.Cut(manual(t), ".Sh EXIT STATUS\n")
	if !ok {
		t.Fatal("the manual has no EXIT STATUS")
	}
	section, _, _ = strings.Cut(section, "\n.Sh ")
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^\.It (\d+)`).FindAllStringSubmatch(section, -1) {
		got = append(got, m[1])
	}
	want := strings.Trim(fmt.Sprint([]int{exitUsage, exitUnavailable, exitBug, exitNotElected, exitLost, exitDenied, exitStale,
		exitNotExecutable, exitNotFound, exitSignal}), "[]")
	if strings.Join(got, " ") != want {
		t.Fatalf("EXIT STATUS has %v, want %v", got, want)
	}
}
