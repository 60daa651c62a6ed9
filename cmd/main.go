// Package cmd is what a person at a shell sees: flags and their variables, help, hints, logs and exit codes. It opens
// the store that a URL names, and ties the election to the guard.
//
// What it decides by itself: nothing about who leads. What it does not promise: that a panic in another goroutine ends
// with the code for a bug; the guard then finds leaderrun dead, and does what it does after every crash.
package cmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/election"
	"github.com/leaderrun/leaderrun/exec"
)

// Main is the program. It returns the exit code, unless the process ends by the signal that ended its command.
func Main() (code int) {
	a := &app{stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(a.stderr, "leaderrun: error: a bug: %v\n%s", p, debug.Stack())
			code = exitBug
		}
	}()
	if report := exec.Crashed(); report != nil {
		if err := handback(report, opener{a.getenv, os.Geteuid() == 0}); err != nil {
			a.report(err, exitBug)
			return 1
		}
		return 0
	}
	how := a.main(os.Args[1:])
	if how.signal != 0 {
		exec.DieBy(how.signal)
	}
	return how.code
}

// app is one invocation.
type app struct {
	stdout, stderr io.Writer
	getenv         func(string) string
	json           bool // report errors as log lines
}

func (a *app) main(args []string) ending {
	o := newOptions()
	args = dispatch(args)
	var early *exec.Guard
	if len(args) > 0 && args[0] == "run" {
		// First of all, so that it is ready when the flags are parsed and the store is open.
		g, err := exec.Start()
		if err != nil {
			return a.ended(election.Result{}, fmt.Errorf("start the guard: %w", err), o)
		}
		early = g
	}
	result, err := a.execute(args, o, early)
	return a.ended(result, err, o)
}

// ended reports an error and finds out how to end for it.
func (a *app) ended(result election.Result, err error, o *options) ending {
	how := end(result, err, o.conflict)
	var stopped *election.StoppedError
	if err != nil && !errors.As(err, &stopped) {
		a.report(err, how.code)
	}
	return how
}

// execute runs the command line through cobra.
func (a *app) execute(args []string, o *options, early *exec.Guard) (result election.Result, err error) {
	taken := false
	defer func() {
		if early != nil && !taken {
			_ = early.Close()
		}
	}()
	root := a.newRoot(o, func(c *cobra.Command, command []string) error {
		if o.explain {
			return o.timing.Explain(a.stdout)
		}
		taken = true
		var err error
		result, err = a.run(o, command, early)
		return err
	})
	root.SetArgs(args)
	return result, root.Execute()
}

// newRoot builds the commands.
func (a *app) newRoot(o *options, run func(*cobra.Command, []string) error) *cobra.Command {
	root := &cobra.Command{
		Use:               "leaderrun",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              cobra.NoArgs,
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetHelpFunc(func(*cobra.Command, []string) { _ = writeHelp(a.stdout) })
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })

	c := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG...]",
		Short: "run a command while leading (the default)",
		RunE: func(c *cobra.Command, command []string) error {
			if err := fill(c.Flags(), o, a.getenv); err != nil {
				return err
			}
			a.json = o.logFormat == "json"
			if err := o.finish(); err != nil {
				return err
			}
			return run(c, command)
		},
	}
	define(c.Flags(), o)
	complete(c)
	root.AddCommand(c, newCompletion(a.stdout), a.newVersion())
	return root
}

func (a *app) newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(errors.New("version takes no arguments"), "to run a command of that name: leaderrun --key KEY -- version")
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.stdout, versionLine())
			return err
		},
	}
}

// dispatch puts "run" before everything that is no subcommand.
func dispatch(args []string) []string {
	known := []string{"run", "version", "completion", "help"}
	if len(args) == 0 {
		return []string{"run"}
	}
	switch first := args[0]; {
	case first == "-h" || first == "--help":
		return []string{"help"}
	case first == "--version":
		return []string{"version"}
	case first == cobra.ShellCompRequestCmd || first == cobra.ShellCompNoDescRequestCmd:
		rest := args[1:]
		if len(rest) > 0 && slices.Contains(known, rest[0]) || len(rest) == 1 && !strings.HasPrefix(rest[0], "-") {
			return args
		}
		return append([]string{first, "run"}, rest...)
	case slices.Contains(known, first):
		return args
	}
	return append([]string{"run"}, args...)
}

// report tells a person what went wrong, on one line, and what to do about it on another.
func (a *app) report(err error, code int) {
	message := oneLine(err.Error())
	hint := ""
	var h backends.Hinter
	if errors.As(err, &h) {
		hint = oneLine(h.Hint())
	}
	if a.json {
		args := []any{"code", code}
		if hint != "" {
			args = append(args, "hint", hint)
		}
		newLogger(a.stderr, "json", "error").Error(message, args...)
		return
	}
	out := "leaderrun: error: " + message + "\n"
	if hint != "" {
		out += "hint: " + hint + "\n"
	}
	_, _ = io.WriteString(a.stderr, out)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
