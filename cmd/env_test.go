package cmd

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestBaseEnvDropsWhatIsOurs(t *testing.T) {
	got := baseEnv([]string{
		"PATH=/bin", "LEADERRUN_BACKEND=etcd://root:hunter2@h", "LEADERRUN_TERM=outer", "LEADERRUN_FENCING_TOKEN=9",
		"LEADERRUN_WAIT=3s", "LEADERRUN_KEY=/outer", "ODD", "EMPTY=",
	})
	if want := []string{"PATH=/bin", "LEADERRUN_WAIT=3s", "ODD", "EMPTY="}; !slices.Equal(got, want) {
		t.Fatalf("baseEnv = %q, want %q", got, want)
	}
}

func TestTermEnv(t *testing.T) {
	o := newOptions()
	o.key, o.id, o.timing.TTL = "/a", "me", 90*time.Second
	got := termEnv(o, "etcds", "mark", 42)
	want := []string{
		"LEADERRUN_FENCING_TOKEN=42", "LEADERRUN_KEY=/a", "LEADERRUN_ID=me", "LEADERRUN_BACKEND=etcds",
		"LEADERRUN_TTL=1m30s", "LEADERRUN_TERM=mark",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("termEnv = %q, want %q", got, want)
	}
}

// The sweep finds what begins with the prefix: marks of the same key in the same store, and of no other.
func TestMarks(t *testing.T) {
	one, again := newMarks("/a"), newMarks("/a")
	if m := one.mark("store", 7); !strings.HasPrefix(m, again.prefix("store")) || m == again.mark("store", 7) {
		t.Errorf("marks of two processes: %q, %q", m, again.mark("store", 7))
	}
	if m := one.mark("store", 7); m != one.mark("store", 7) {
		t.Error("the mark of a term changes")
	}
	for _, other := range []string{newMarks("/b").mark("store", 7), one.mark("other", 7), newMarks("/ab").mark("store", 7), marks{key: "b"}.mark("store\x00/a", 7)} {
		if strings.HasPrefix(other, one.prefix("store")) {
			t.Errorf("mark %q of another key or store has our prefix", other)
		}
	}
}

// newSet returns a set with the flags of the table.
func newSet(o *options) *pflag.FlagSet {
	set := pflag.NewFlagSet("run", pflag.ContinueOnError)
	define(set, o)
	return set
}

func TestFill(t *testing.T) {
	o := newOptions()
	set := newSet(o)
	if err := set.Parse([]string{"--ttl", "20s", "--", "x"}); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"LEADERRUN_TTL": "30s", "LEADERRUN_WAIT": "3s", "LEADERRUN_TRY": "1", "LEADERRUN_ID": ""}
	if err := fill(set, o, func(name string) string { return env[name] }); err != nil {
		t.Fatal(err)
	}
	if o.timing.TTL != 20*time.Second || o.wait != 3*time.Second || !o.try || o.id != "" {
		t.Fatalf("options = %+v, want ttl 20s (flag), wait 3s and try (variables)", o)
	}

	// Each flag has a variable, and a bad value names it.
	for _, f := range runFlags() {
		err := fill(newSet(newOptions()), newOptions(), func(name string) string {
			if name == f.env() {
				return "\x00?"
			}
			return ""
		})
		if f.def == "host name" || f.name == "key" || f.name == "backend" {
			continue // any text will do here
		}
		if err == nil || !strings.Contains(err.Error(), f.env()) {
			t.Errorf("fill with a bad %s = %v, want an error that names it", f.env(), err)
		}
	}
}

func TestSpan(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"10", "needs a unit"}, {"-1s", "negative"}, {"", "not a duration"}, {"1y", "not a duration"},
	} {
		var d span
		if err := d.Set(test.in); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("span.Set(%q) = %v, want an error with %q", test.in, err, test.want)
		}
	}
	var d span
	if err := d.Set("1h30m"); err != nil || d != span(90*time.Minute) {
		t.Errorf("span.Set(1h30m) = %v, %v", time.Duration(d), err)
	}
}
