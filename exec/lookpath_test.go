package exec_test

import (
	"errors"
	"os"
	"testing"

	"github.com/leaderrun/leaderrun/exec"
)

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"a/plain": 0o600, "b/plain": 0o700, "a/data": 0o600, "b/tool": 0o700} {
		if err := os.MkdirAll(dir+"/"+name[:1], 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/"+name, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dir+"/a/tool", 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir + "/b")
	env := []string{"PATH=/wrong", "PATH=" + dir + "/a:/no/such/dir:" + dir + "/b/"}
	for _, c := range []struct {
		file string
		env  []string
		want string
		code int
	}{
		{"plain", env, dir + "/b/plain", 0}, // the first one cannot be executed
		{"tool", env, dir + "/b/tool", 0},   // the first one is a directory
		{"data", env, "", 126},
		{"nothing", env, "", 127},
		{"", env, "", 127},
		{"plain", []string{"PATH="}, "./plain", 0}, // the working directory
		{"sh", nil, "/bin/sh", 0},
		{"./plain", nil, "./plain", 0},
		{dir + "/a/data", nil, "", 126},
		{dir + "/a", nil, "", 126},
		{"./nothing", nil, "", 127},
		{dir + "/a/data/x", nil, "", 127},
	} {
		got, err := exec.LookPath(c.file, c.env)
		code := 0
		if _, ok := errors.AsType[*exec.NotFound](err); ok {
			code = 127
		} else if _, ok := errors.AsType[*exec.NotExecutable](err); ok {
			code = 126
		} else if err != nil {
			code = -1
		}
		if code != c.code || c.code == 0 && got != c.want {
			t.Errorf("LookPath(%q, %q) = %q, %v; want %q, status %d", c.file, c.env, got, err, c.want, c.code)
		}
	}
}
