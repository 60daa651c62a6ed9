package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/election"
	"github.com/leaderrun/leaderrun/exec"
)

// run campaigns and runs the command. It closes the guard.
func (a *app) run(o *options, command []string, g *exec.Guard) (election.Result, error) {
	closeGuard := g.Close
	defer func() { _ = closeGuard() }()
	path, err := check(o, command)
	if err != nil {
		return election.Result{}, err
	}
	log := newLogger(a.stderr, o.logFormat, o.logLevel)
	open := opener{a.getenv, os.Geteuid() == 0}
	s, err := open.open(o.backend)
	if err != nil {
		return election.Result{}, err
	}
	defer s.Close()
	memory, err := openMemory(s, log)
	if err != nil {
		return election.Result{}, err
	}

	marks := newMarks(o.key)
	r := newRunner(g, startGuard, exec.Command{Path: path, Args: command, Env: baseEnv(os.Environ())}, log)
	r.env = func(store string, token int64) []string { return termEnv(o, s.scheme, marks.mark(store, token), token) }
	r.crash = func(t election.Term) ([]byte, error) { return newWill(o.backend, s.memory, o.key, t) }
	closeGuard = r.Close

	signals, stop, err := watchSignals()
	if err != nil {
		return election.Result{}, err
	}
	defer stop()
	terminal := exec.SaveTerminal()
	cfg := o.config(command[0], log)
	result, err := election.Run(context.Background(), cfg, election.Ports{
		Backend: s,
		Runner:  r,
		Host: &host{
			key: o.key, boot: cfg.Candidate.Boot, marks: marks, memory: memory, sweep: sweep, outer: a.getenv(envTerm), log: log,
		},
		Clock:   clock{},
		Signals: signals,
	})
	if err != nil || result.Status.Signal != 0 {
		terminal.Restore() // a command that was killed had no chance to
	} else {
		terminal.Discard()
	}
	return result, fromElection(err)
}

// check looks at what needs no store, in the order in which a person would want to hear of it, and finds the command.
func check(o *options, command []string) (string, error) {
	if o.key == "" {
		return "", usage(errors.New("no key"), "--key /jobs/billing, or LEADERRUN_KEY, says what to lead")
	}
	if err := backends.CheckKey(o.key); err != nil {
		return "", err
	}
	if len(command) == 0 {
		return "", usage(errors.New("no command to run"), "leaderrun --key "+o.key+" -- COMMAND [ARG...]")
	}
	if _, err := parseBackend(o.backend); err != nil {
		return "", err
	}
	return exec.LookPath(command[0], os.Environ())
}

// config is the election's.
func (o *options) config(command string, log *slog.Logger) election.Config {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	if o.id == "" {
		o.id = name
	}
	cfg := election.Config{
		Candidate: backends.Candidate{
			Key: o.key, ID: o.id, Host: name, PID: os.Getpid(), Boot: bootID(), TTL: o.timing.TTL, Command: filepath.Base(command),
		},
		Timing: o.timing, ForeignWait: o.foreignWait,
		Try: o.try, Wait: o.wait, Hold: o.hold, StopTimeout: o.stopTimeout,
		OnLoss: election.LossExit, Restart: election.RestartNever,
		Nonce:  func() string { return randomHex(8) },
		Jitter: rand.Float64,
		Log:    log,
	}
	if o.onLoss == "campaign" {
		cfg.OnLoss = election.LossCampaign
	}
	switch o.restart {
	case "on-failure":
		cfg.Restart = election.RestartOnFailure
	case "always":
		cfg.Restart = election.RestartAlways
	}
	return cfg
}

func startGuard() (guard, error) { return exec.Start() }

// sweep kills what carries a mark with this prefix. Nothing that is to be kept does yet.
func sweep(ctx context.Context, prefix string) (killed, unreadable int, err error) {
	s, err := exec.Sweep(ctx, envTerm, prefix, "")
	return s.Killed, s.Unreadable, err
}

// watchSignals starts to catch signals. They come out in the form that the election reads, until stop is called.
func watchSignals() (signals <-chan election.Signal, stop func(), err error) {
	w, err := exec.WatchSignals()
	if err != nil {
		return nil, nil, fmt.Errorf("catch signals: %w", err)
	}
	out, done := make(chan election.Signal), make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case s, ok := <-w.C():
				if !ok {
					return
				}
				select {
				case out <- election.Signal{Num: s.Num, Group: s.Group}:
				case <-done:
					return
				}
			case <-done:
				return
			}
		}
	})
	return out, func() {
		close(done)
		reader.Wait()
		w.Close()
	}, nil
}

// fromElection marks what is neither the election's own nor one of the errors that stores tell apart: it is the store's.
func fromElection(err error) error {
	if err == nil {
		return nil
	}
	return storeError{err}
}
