package election_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/boottime"
	"github.com/leaderrun/leaderrun/election"
)

func TestTimingDefaults(t *testing.T) {
	for _, ttl := range []time.Duration{0, time.Second, 1500 * time.Millisecond, 10 * time.Second, 5 * time.Minute} {
		tm := election.Timing{TTL: ttl}.WithDefaults()
		if err := tm.Validate(); err != nil {
			t.Errorf("the defaults for ttl %v are refused: %v", ttl, err)
		}
	}
	got := election.Timing{}.WithDefaults()
	want := election.Timing{TTL: 10 * time.Second, Renew: 2 * time.Second, Grace: 2 * time.Second, Margin: time.Second}
	if got != want {
		t.Errorf("defaults = %+v, want %+v", got, want)
	}
}

func TestTimingRefused(t *testing.T) {
	s, ms := time.Second, time.Millisecond
	for _, c := range []struct {
		name string
		t    election.Timing
		says []string
	}{
		{"ttl too short", election.Timing{TTL: 999 * ms}, []string{"ttl 999ms", "1s"}},
		{"ttl too long", election.Timing{TTL: 301 * s}, []string{"ttl 5m1s", "5m0s"}},
		{"renew over a third", election.Timing{TTL: 9 * s, Renew: 4 * s, Grace: 0, Margin: s}, []string{"renew 4s", "ttl 9s"}},
		{"renew negative", election.Timing{TTL: 9 * s, Renew: -s}, []string{"renew -1s"}},
		{"grace negative", election.Timing{TTL: 9 * s, Grace: -s}, []string{"grace -1s"}},
		{"margin too small", election.Timing{TTL: 10 * s, Margin: 99 * ms}, []string{"margin 99ms", "100ms"}},
		{"no room", election.Timing{TTL: 10 * s, Renew: 3 * s, Grace: s, Margin: s}, []string{"renew 3s", "grace 1s", "margin 1s", "ttl 10s", "11s"}},
	} {
		err := c.t.WithDefaults().Validate()
		var te *election.TimingError
		if !errors.As(err, &te) {
			t.Errorf("%s: Validate = %v, want a TimingError", c.name, err)
			continue
		}
		for _, want := range c.says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not name %q", c.name, err, want)
			}
		}
		var h backends.Hinter
		if !errors.As(err, &h) || h.Hint() == "" {
			t.Errorf("%s: no hint", c.name)
		}
	}
}

func TestDeadline(t *testing.T) {
	tm := election.Timing{TTL: 10 * time.Second}.WithDefaults()
	d := tm.Deadline(boottime.Time(100 * time.Second))
	want := election.Deadline{
		Term: boottime.Time(107 * time.Second), Kill: boottime.Time(109 * time.Second), End: boottime.Time(110 * time.Second),
	}
	if d != want {
		t.Errorf("Deadline = %v, want %v", d, want)
	}
	if got, want := election.Slack(10*time.Second), 10200*time.Millisecond; got != want {
		t.Errorf("Slack(10s) = %v, want %v", got, want)
	}
}

func TestExplain(t *testing.T) {
	var b strings.Builder
	if err := (election.Timing{}.WithDefaults()).Explain(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"7s", "9s", "10s", "10.2s", "TERM", "KILL", "deadline"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the time line does not say %q:\n%s", want, b.String())
		}
	}
	for line := range strings.Lines(b.String()) {
		if len(line) > 81 {
			t.Errorf("a line is longer than 80 columns: %q", line)
		}
	}
}

// TestFinal holds what a term leaves behind: released, or what it had still to wait for (ARCHITECTURE.md, rule 4).
func TestFinal(t *testing.T) {
	term := election.Term{Record: backends.Record{Token: 7, TTL: time.Second}, MayStart: boottime.Time(10 * time.Second)}
	now := boottime.Time(4 * time.Second)
	if r := term.Final(true, now); !r.Released || r.Owe != 0 {
		t.Errorf("a term that started: released %v, owe %v; want released", r.Released, r.Owe)
	}
	if r := term.Final(false, now); r.Released || r.Owe != 6*time.Second {
		t.Errorf("a term that was still waiting: released %v, owe %v; want 6s owed", r.Released, r.Owe)
	}
	if r := term.Final(false, boottime.Time(11*time.Second)); !r.Released || r.Owe != 0 {
		t.Errorf("a term that had waited: released %v, owe %v; want released", r.Released, r.Owe)
	}
}
