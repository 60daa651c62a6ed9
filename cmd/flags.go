package cmd

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/election"
)

// options is what a person asked for.
type options struct {
	key      string
	backend  string
	id       string
	try      bool
	wait     time.Duration
	conflict int

	timing      election.Timing
	foreignWait time.Duration
	hold        time.Duration
	explain     bool

	onLoss      string
	restart     string
	stopTimeout time.Duration

	logFormat string
	logLevel  string
}

// A flag is one row of the table from which flags, variables, help and completion are made, and against which the
// manual is tested.
type flag struct {
	name    string
	short   string
	arg     string // what stands for its value in help; "" for a switch
	def     string // for help; what an empty value means
	group   string
	help    string // for help, lines of at most 48 columns
	choices []string
	secret  bool // its variable may hold a password: the command never gets it
	value   func(*options) pflag.Value
}

// env is the variable that sets the flag.
func (f flag) env() string {
	return "LEADERRUN_" + strings.ToUpper(strings.ReplaceAll(f.name, "-", "_"))
}

// The groups of the help, in their order.
const (
	groupElection = "Election"
	groupCommand  = "Command"
	groupTiming   = "Timing"
	groupLog      = "Log"
)

// runFlags is the table.
func runFlags() []flag {
	return []flag{
		{name: "key", short: "k", arg: "KEY", group: groupElection, help: "what to lead, such as /jobs/billing (required)",
			value: func(o *options) pflag.Value { return (*text)(&o.key) }},
		{name: "backend", short: "b", arg: "URL", group: groupElection, def: "file", secret: true,
			help:  "the coordination store: file:///dir",
			value: func(o *options) pflag.Value { return (*text)(&o.backend) }},
		{name: "id", arg: "NAME", group: groupElection, def: "host name", help: "what others see of this candidate",
			value: func(o *options) pflag.Value { return (*text)(&o.id) }},
		{name: "try", short: "n", group: groupElection, help: "do not wait: if another leads, exit 75",
			value: func(o *options) pflag.Value { return (*toggle)(&o.try) }},
		{name: "wait", short: "w", arg: "D", group: groupElection, def: "for ever", help: "give up after D: exit 75",
			value: func(o *options) pflag.Value { return (*span)(&o.wait) }},
		{name: "conflict-exit-code", short: "E", arg: "N", group: groupElection, def: "75", help: "the exit code for not elected",
			value: func(o *options) pflag.Value { return (*code)(&o.conflict) }},

		{name: "stop-timeout", arg: "D", group: groupCommand, def: "none",
			help:  "asked to stop, kill the command after D",
			value: func(o *options) pflag.Value { return (*span)(&o.stopTimeout) }},
		{name: "restart", arg: "WHEN", group: groupCommand, def: "never", choices: []string{"never", "on-failure", "always"},
			help:  "run the command again when it ends, within the\nterm: never, on-failure or always",
			value: func(o *options) pflag.Value { return choice{&o.restart, []string{"never", "on-failure", "always"}} }},
		{name: "on-loss", arg: "WHAT", group: groupCommand, def: "exit", choices: []string{"exit", "campaign"},
			help:  "after a lost lease: exit or campaign",
			value: func(o *options) pflag.Value { return choice{&o.onLoss, []string{"exit", "campaign"}} }},
		{name: "hold", arg: "D", group: groupCommand,
			help:  "keep leading until D after the start, also when\nthe command ended sooner (cron on skewed clocks)",
			value: func(o *options) pflag.Value { return (*span)(&o.hold) }},

		{name: "ttl", arg: "D", group: groupTiming, def: "10s", help: "how long a silent leader is waited for",
			value: func(o *options) pflag.Value { return (*span)(&o.timing.TTL) }},
		{name: "renew", arg: "D", group: groupTiming, def: "ttl/5", help: "from one renewal to the next",
			value: func(o *options) pflag.Value { return (*span)(&o.timing.Renew) }},
		{name: "grace", arg: "D", group: groupTiming, def: "ttl/5", help: "from TERM to KILL when the lease runs out",
			value: func(o *options) pflag.Value { return (*span)(&o.timing.Grace) }},
		{name: "margin", arg: "D", group: groupTiming, def: "ttl/10", help: "from KILL to the end of the lease",
			value: func(o *options) pflag.Value { return (*span)(&o.timing.Margin) }},
		{name: "foreign-wait", arg: "D", group: groupTiming, def: "ttl", help: "wait after a leader that is not leaderrun",
			value: func(o *options) pflag.Value { return (*span)(&o.foreignWait) }},
		{name: "explain-timing", group: groupTiming, help: "print the time line of a term and exit",
			value: func(o *options) pflag.Value { return (*toggle)(&o.explain) }},

		{name: "log-format", arg: "FORMAT", group: groupLog, def: "text", choices: []string{"text", "json"}, help: "text or json, on stderr",
			value: func(o *options) pflag.Value { return choice{&o.logFormat, []string{"text", "json"}} }},
		{name: "log-level", arg: "LEVEL", group: groupLog, def: "info", choices: []string{"debug", "info", "warn", "error"},
			help:  "debug, info, warn or error",
			value: func(o *options) pflag.Value { return choice{&o.logLevel, []string{"debug", "info", "warn", "error"}} }},
	}
}

// newOptions returns the defaults.
func newOptions() *options {
	return &options{
		conflict: exitNotElected, onLoss: "exit", restart: "never", logFormat: "text", logLevel: "info",
	}
}

// define adds the flags of the table to a set. Flags end at the first word that is none: the rest is the command's.
func define(set *pflag.FlagSet, o *options) {
	set.SetInterspersed(false)
	set.SortFlags = false
	for _, f := range runFlags() {
		help, _, _ := strings.Cut(f.help, "\n")
		defined := set.VarPF(f.value(o), f.name, f.short, help)
		if f.arg == "" {
			defined.NoOptDefVal = "true"
		}
	}
}

// fill sets what was not given as a flag from the environment. An empty variable counts as absent.
func fill(set *pflag.FlagSet, o *options, getenv func(string) string) error {
	for _, f := range runFlags() {
		v := getenv(f.env())
		if v == "" || set.Changed(f.name) {
			continue
		}
		if err := f.value(o).Set(v); err != nil {
			return usage(fmt.Errorf("%s=%s: %w", f.env(), shown(f, v), err), "it stands for --"+f.name+"; unset it or correct it")
		}
	}
	return nil
}

// shown is a value as an error message may repeat it.
func shown(f flag, value string) string {
	if f.secret {
		return "…"
	}
	return fmt.Sprintf("%q", value)
}

// finish completes the options and checks what can be checked without the world.
func (o *options) finish() error {
	o.timing = o.timing.WithDefaults()
	if o.foreignWait == 0 {
		o.foreignWait = o.timing.TTL
	}
	if err := o.timing.Validate(); err != nil {
		return usage(err, "")
	}
	return nil
}

// flagError turns what pflag says into our words.
func flagError(err error) error {
	var (
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
	)
	switch {
	case errors.As(err, &unknown):
		name := "--" + unknown.GetSpecifiedName()
		if short := unknown.GetSpecifiedShortnames(); short != "" {
			name = "-" + unknown.GetSpecifiedName()
		}
		return usage(fmt.Errorf("there is no flag %s", name), "leaderrun --help lists the flags; those of the command go after --")
	case errors.As(err, &missing):
		return usage(fmt.Errorf("flag %s needs a value", spelled(missing.GetFlag())), "")
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		value := fmt.Sprintf("%q", invalid.GetValue())
		return usage(fmt.Errorf("flag %s %s: %w", spelled(f), value, invalid.Unwrap()), "")
	}
	return usage(err, "")
}

func spelled(f *pflag.Flag) string { return "--" + f.Name }

// usage makes an error one of usage, with a hint unless it has one. An empty hint points at the help.
func usage(err error, hint string) error {
	var h backends.Hinter
	switch {
	case errors.As(err, &h):
	case hint == "":
		err = backends.WithHint(err, "leaderrun --help explains the flags, man leaderrun everything")
	default:
		err = backends.WithHint(err, hint)
	}
	return usageError{err}
}

// usageError is a mistake in what a person typed or exported.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }
