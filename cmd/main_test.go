package cmd

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDispatch(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"", "run"},
		{"--key /a -- version", "run --key /a -- version"},
		{"./x --flag", "run ./x --flag"},
		{"run -- x", "run -- x"},
		{"version", "version"},
		{"--version", "version"},
		{"-- version", "run -- version"},
		{"completion bash", "completion bash"},
		{"--help", "help"},
		{"-h", "help"},
		{"help", "help"},
		{"__complete -", "__complete run -"},
		{"__complete --key /a x", "__complete run --key /a x"},
		{"__complete ver", "__complete ver"},
		{"__complete completion b", "__complete completion b"},
		{"__completeNoDesc --k", "__completeNoDesc run --k"},
	} {
		if got := strings.Join(dispatch(strings.Fields(test.args)), " "); got != test.want {
			t.Errorf("dispatch(%q) = %q, want %q", test.args, got, test.want)
		}
	}
}

func help(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	if err := writeHelp(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestHelpFitsATerminal(t *testing.T) {
	for line := range strings.Lines(help(t)) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
			t.Errorf("help has a line of %d columns: %s", n, line)
		}
	}
}

// TestFlagsAreDocumented holds the table of flags against help, manual and completion, in both directions.
func TestFlagsAreDocumented(t *testing.T) {
	manual := manual(t)
	for _, f := range runFlags() {
		if !regexp.MustCompile(`(?m)^ .*--` + f.name + `( |$)`).MatchString(help(t)) {
			t.Errorf("help does not have --%s", f.name)
		}
		item := "(?m)^\\.It "
		if f.short != "" {
			item += "Fl " + f.short + " , "
		} else {
			item += "Fl "
		}
		item = strings.Replace(item, " , ", " , -", 1)
		if f.short == "" {
			item += "-"
		}
		if !regexp.MustCompile(item + f.name + `( |$)`).MatchString(manual) {
			t.Errorf("the manual does not explain --%s", f.name)
		}
		if !strings.Contains(manual, ".It Ev "+f.env()+"\n.Fl -"+f.name+"\n") {
			t.Errorf("the manual does not have %s", f.env())
		}
		for _, c := range f.choices {
			if !strings.Contains(f.help, c) || !strings.Contains(manual, c) {
				t.Errorf("--%s: %s is not in help and manual", f.name, c)
			}
		}
	}
	known := func(name string) bool {
		return name == "help" || slices.ContainsFunc(runFlags(), func(f flag) bool { return f.name == name })
	}
	for _, m := range regexp.MustCompile(`(?m)^\.It Fl (?:\w , )?-([a-z-]+)`).FindAllStringSubmatch(manual, -1) {
		if !known(m[1]) {
			t.Errorf("the manual explains --%s, which there is not", m[1])
		}
	}
}

func manual(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../man/leaderrun.1")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestCompletionKnowsTheFlags(t *testing.T) {
	var out bytes.Buffer
	a := &app{stdout: &out, stderr: &out, getenv: func(string) string { return "" }}
	if how := a.main([]string{"__complete", "--"}); how != (ending{}) {
		t.Fatalf("__complete -- ended with %v:\n%s", how, out.String())
	}
	for _, f := range runFlags() {
		if !regexp.MustCompile(`(?m)^--` + f.name + `\t`).MatchString(out.String()) {
			t.Errorf("completion does not offer --%s:\n%s", f.name, out.String())
		}
	}
	for _, f := range runFlags() {
		if f.choices == nil {
			continue
		}
		out.Reset()
		a.main([]string{"__complete", "--" + f.name, ""})
		if want := strings.Join(f.choices, "\n") + "\n:4\n"; !strings.HasPrefix(out.String(), want) {
			t.Errorf("completion of --%s = %q, want %q", f.name, out.String(), want)
		}
	}
}

func TestDefaultsAreThoseOfTheTable(t *testing.T) {
	o := newOptions()
	for _, f := range runFlags() {
		if f.choices != nil && f.value(o).String() != f.def {
			t.Errorf("--%s is %q by default, help says %q", f.name, f.value(o).String(), f.def)
		}
	}
	if got := strconv.Itoa(o.conflict); got != "75" {
		t.Errorf("conflict exit code %s by default, want 75", got)
	}
}
