package cmd

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	env := map[string]string{"LEADERRUN_STATE_DIR": filepath.Join(dir, "state")}
	o := opener{getenv: func(name string) string { return env[name] }}
	for _, test := range []struct{ url, memory string }{
		{"", "state"},
		{"file", "state"},
		{"file:", "state"},
		{"file://", "state"},
		{"file://" + dir + "/other", "other"},
		{"file://" + dir + "/with%20space", "with space"},
		{"file://" + dir + "/net?network=1", "state"},
		{"file://" + dir + "/net?network=0", "net"},
	} {
		s, err := o.open(test.url)
		if err != nil {
			t.Errorf("open(%q) = %v", test.url, err)
			continue
		}
		if want := filepath.Join(dir, test.memory); s.memory != want || s.scheme != "file" {
			t.Errorf("open(%q): memory in %q, want %q", test.url, s.memory, want)
		}
		s.Close()
	}
}

func TestOpenRefuses(t *testing.T) {
	o := opener{getenv: func(string) string { return "" }}
	for _, test := range []struct{ url, message, hint string }{
		{"redis://:hunter2@h:6379", "consensus", "file:///"},
		{"rediss://h", "consensus", "file:///"},
		{"gopher://u:hunter2@h", "gopher:// is not known", "file:///"},
		{"relative", "not a URL", "file:///"},
		{"file:relative", "not a URL", "file:///"},
		{"file://relative/x", "absolute", "file:///relative/x"},
		{"file://u:hunter2@h/x", "absolute", "file:///"},
		{"file:///x?a=hunter2", `"a"`, "network"},
		{"file:///x?network=yes", `"network"`, "network=1"},
		{"http://u:hunter2@[x", "not a URL", "file:///"},
		{"http://u:hunter2%zz@x", "not a URL", "file:///"},
	} {
		_, err := o.open(test.url)
		var hint backends.Hinter
		if !errors.As(err, &hint) || !strings.Contains(err.Error(), test.message) || !strings.Contains(hint.Hint(), test.hint) {
			t.Errorf("open(%q) = %v, want %q with a hint %q", test.url, err, test.message, test.hint)
			continue
		}
		if strings.Contains(err.Error()+hint.Hint(), "hunter2") {
			t.Errorf("open(%q) repeats the password: %v", test.url, err)
		}
		var u usageError
		if !errors.As(err, &u) {
			t.Errorf("open(%q) = %v, want a usage error", test.url, err)
		}
	}
}
