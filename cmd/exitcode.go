package cmd

import (
	"errors"
	"syscall"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/election"
	"github.com/leaderrun/leaderrun/exec"
)

// The exit codes that are leaderrun's own; every other one is the command's. Where sysexits.h has a name for what
// happened, its number is used. A test holds this list against the manual.
const (
	exitUsage         = 64
	exitUnavailable   = 69
	exitBug           = 70
	exitNotElected    = 75 // -E
	exitLost          = 76
	exitDenied        = 77
	exitStale         = 78
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignal        = 128 // + its number
)

// An ending is how this process ends: with a code, or by a signal.
type ending struct {
	code   int
	signal syscall.Signal
}

// storeError marks what a store, or the directory of the host's memory, said.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

// end is the only table from an error, or the command's status, to the end of this process. conflict is the code for
// not elected.
func end(r election.Result, err error, conflict int) ending {
	var (
		usage    usageError
		stopped  *election.StoppedError
		start    *election.StartError
		notFound *exec.NotFound
		notExec  *exec.NotExecutable
		store    storeError
	)
	switch {
	case err == nil && r.Status.Signal != 0:
		return ending{code: exitSignal + int(r.Status.Signal), signal: r.Status.Signal}
	case err == nil:
		return ending{code: r.Status.Code}
	case errors.As(err, &usage), errors.Is(err, backends.ErrBadKey):
		return ending{code: exitUsage}
	case errors.As(err, &stopped):
		return ending{code: exitSignal + int(stopped.Signal), signal: stopped.Signal}
	case errors.As(err, &notFound):
		return ending{code: exitNotFound}
	case errors.As(err, &notExec):
		return ending{code: exitNotExecutable}
	case errors.As(err, &start):
		// It was there when it was looked up: ENOENT is an interpreter that is missing, too.
		if errors.Is(err, syscall.ENOENT) {
			return ending{code: exitNotFound}
		}
		return ending{code: exitNotExecutable}
	case errors.Is(err, election.ErrNotElected):
		return ending{code: conflict}
	case errors.Is(err, election.ErrLeaseLost):
		return ending{code: exitLost}
	case errors.Is(err, election.ErrStaleToken), errors.Is(err, election.ErrNewerFormat):
		// The store's state forbids a start, and trying again changes nothing.
		return ending{code: exitStale}
	case errors.Is(err, backends.ErrDenied):
		return ending{code: exitDenied}
	case errors.Is(err, backends.ErrUnavailable), errors.As(err, &store):
		return ending{code: exitUnavailable}
	}
	return ending{code: exitBug}
}
