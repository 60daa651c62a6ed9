package file_test

import (
	"testing"

	"github.com/leaderrun/leaderrun/backends/file"
)

func TestStateDir(t *testing.T) {
	type env = map[string]string
	for _, c := range []struct {
		env  env
		root bool
		want string // "": an error
	}{
		{env{"LEADERRUN_STATE_DIR": "/a/b/", "STATE_DIRECTORY": "/c", "HOME": "/h"}, false, "/a/b"},
		{env{"STATE_DIRECTORY": "/var/lib/x:/var/lib/y", "HOME": "/h"}, true, "/var/lib/x"},
		{env{"HOME": "/root"}, true, "/var/lib/leaderrun"},
		{env{"XDG_STATE_HOME": "/s", "HOME": "/h"}, false, "/s/leaderrun"},
		{env{"XDG_STATE_HOME": "s", "HOME": "/h"}, false, "/h/.local/state/leaderrun"},
		{env{"HOME": "/h"}, false, "/h/.local/state/leaderrun"},
		{env{"LEADERRUN_STATE_DIR": "a", "HOME": "/h"}, false, ""},
		{env{"STATE_DIRECTORY": "a", "HOME": "/h"}, false, ""},
		{env{}, false, ""},
	} {
		got, err := file.StateDir(func(name string) string { return c.env[name] }, c.root)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("StateDir(%v, %v) = %q, %v, want %q", c.env, c.root, got, err, c.want)
		}
	}
}
