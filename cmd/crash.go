package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/file"
	"github.com/leaderrun/leaderrun/boottime"
	"github.com/leaderrun/leaderrun/election"
	"github.com/leaderrun/leaderrun/exec"
)

// will is what the guard is given with each term, in memory, so that it can hand the term back when leaderrun died. It
// may hold secrets.
type will struct {
	Backend  string          `json:"backend"` // URL
	Memory   string          `json:"memory"`  // directory
	Store    string          `json:"store"`
	Key      string          `json:"key"`
	Record   json.RawMessage `json:"record"`
	MayStart boottime.Time   `json:"mayStart"`
	Data     []byte          `json:"data"` // backends.Crash.Data

	term election.Term // made of Record and MayStart
}

// newWill is written by leaderrun.
func newWill(backend, memory, key string, t election.Term) ([]byte, error) {
	record, err := json.Marshal(t.Record)
	if err != nil {
		return nil, err
	}
	return json.Marshal(will{
		Backend: backend, Memory: memory, Store: t.Store, Key: key,
		Record: record, MayStart: t.MayStart, Data: t.Crash.Data,
	})
}

// readWill is what the guard does with it.
func readWill(data []byte) (*will, error) {
	var w will
	if err := json.Unmarshal(data, &w); err != nil {
		return nil, err
	}
	r, err := backends.ParseRecord(w.Record)
	if err != nil {
		return nil, err
	}
	w.term = election.Term{Record: *r, MayStart: w.MayStart}
	return &w, nil
}

// handback is what is left of the guard's work when leaderrun died, or was stopped past the end of its term: the tree is
// gone, and the next leader need not wait for what is known to be dead.
func handback(report *exec.CrashReport, o opener) error {
	hush()
	w, err := readWill(report.Crash)
	if err != nil {
		return fmt.Errorf("hand back: %w", err)
	}
	s, err := o.open(w.Backend)
	if err != nil {
		return fmt.Errorf("hand back: %w", err)
	}
	defer s.Close()

	// After the end of the term nobody waits for it any more.
	until := report.Deadline.End.Later(boottime.Now().Add(2 * time.Second))
	ctx, cancel := context.WithTimeout(context.Background(), until.Sub(boottime.Now()))
	defer cancel()
	crash := backends.Crash{Data: w.Data, Files: report.Files}
	err = tryHandback(ctx, s, crash, func() backends.Record { return w.term.Final(report.Begun, boottime.Now()) }, w.term.Record.TTL/10)
	if err != nil {
		return fmt.Errorf("hand back %s, token %d: %w", w.Key, report.Token, err)
	}
	if m, err := file.OpenMemory(w.Memory); err == nil {
		_ = m.Ended(w.Store, w.Key, report.Token) // without it the next start here looks for leftovers, no more
	}
	return nil
}

// tryHandback tries until it is done, or ctx is. An attempt is given the time that a renewal would have.
func tryHandback(ctx context.Context, b backends.Backend, c backends.Crash, final func() backends.Record, attempt time.Duration) error {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		one, cancel := context.WithTimeout(ctx, max(attempt, 500*time.Millisecond))
		err := b.Handback(one, c, final())
		cancel()
		if err == nil || !errors.Is(err, backends.ErrUnavailable) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

// hush gives up stdin and stdout: who reads what the command wrote should see its end now, not when the store answered.
func hush() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer null.Close()
	for fd := range 2 {
		_ = dup2(int(null.Fd()), fd)
	}
}
