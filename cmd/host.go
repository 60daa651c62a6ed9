package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends/file"
	"github.com/leaderrun/leaderrun/boottime"
	"github.com/leaderrun/leaderrun/election"
)

// host is what this machine remembers of a key, and the sweep of what earlier terms left on it. Its methods may be
// called from any goroutine, one at a time for each term.
type host struct {
	key    string
	boot   string
	marks  marks
	memory *file.Memory // nil: nothing can be remembered here
	sweep  func(ctx context.Context, prefix string) (killed, unreadable int, err error)
	outer  string // LEADERRUN_TERM of a leaderrun that runs this one
	log    *slog.Logger
}

// Recall returns what is remembered.
func (h *host) Recall(store string) (election.Memory, error) {
	if h.outer != "" && strings.HasPrefix(h.outer, h.marks.prefix(store)) {
		h.log.Warn("this runs inside a term of the same key, and will wait for its own end", "key", h.key)
	}
	m, _, err := h.recall(store)
	return election.Memory{Token: m.Token, TTL: m.TTL}, err
}

func (h *host) recall(store string) (file.Remembered, bool, error) {
	if h.memory == nil {
		return file.Remembered{}, false, errors.New("the state directory cannot be used")
	}
	return h.memory.Recall(store, h.key)
}

// Prepare sweeps, unless it is known that there is nothing to sweep, and remembers the new term.
func (h *host) Prepare(ctx context.Context, store string, token int64, ttl time.Duration) error {
	last, known, err := h.recall(store)
	if err == nil && known && token <= last.Token {
		return stale(h.memory.Started(store, h.key, token, ttl, h.boot)) // refuses, and says what to do
	}
	ended := known && (last.Clean || last.Boot != h.boot && h.boot != "")
	if err != nil || !ended {
		if err := h.clean(ctx, store); err != nil {
			return err
		}
	}
	if h.memory == nil {
		return nil
	}
	return stale(h.memory.Started(store, h.key, token, ttl, h.boot))
}

func stale(err error) error {
	if errors.Is(err, file.ErrStale) {
		return fmt.Errorf("%w: %w", election.ErrStaleToken, err)
	}
	return err
}

// clean kills what is left of earlier terms of the key.
func (h *host) clean(ctx context.Context, store string) error {
	killed, unreadable, err := h.sweep(ctx, h.marks.prefix(store))
	if killed > 0 {
		h.log.Warn("killed what an earlier term had left running", "key", h.key, "killed", killed)
	}
	if unreadable > 0 {
		h.log.Debug("some processes cannot be looked at for what an earlier term left", "key", h.key, "count", unreadable)
	}
	return err
}

// Ended remembers that the term left nothing behind.
func (h *host) Ended(store string, token int64) {
	if h.memory == nil {
		return
	}
	if err := h.memory.Ended(store, h.key, token); err != nil {
		h.log.Warn("cannot remember that the term ended; the next start will look for what it left", "key", h.key, "err", err)
	}
}

// openMemory opens what this host remembers. For a store of its own directory a failure is an error; a networked store
// is safe without, less so after it was restored from a backup, and gets a warning.
func openMemory(s *store, log *slog.Logger) (*file.Memory, error) {
	m, err := file.OpenMemory(s.memory)
	if err == nil {
		return m, nil
	}
	if s.local {
		return nil, storeError{err}
	}
	log.Warn("nothing can be remembered on this host: a store that was restored from a backup would not be noticed", "dir", s.memory, "err", err)
	return nil, nil
}

// bootID names this boot of the machine, "" where the system does not say.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// clock is the boot clock, for the election.
type clock struct{}

func (clock) Now() boottime.Time                { return boottime.Now() }
func (clock) NewTimer() (election.Timer, error) { return boottime.NewTimer() }
