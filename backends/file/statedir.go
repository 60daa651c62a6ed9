package file

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/leaderrun/leaderrun/backends"
)

// StateDir says where this host's state is: $LEADERRUN_STATE_DIR, else the first of systemd's $STATE_DIRECTORY, else
// /var/lib/leaderrun for root, else $XDG_STATE_HOME/leaderrun or ~/.local/state/leaderrun. It makes nothing; Open and
// OpenMemory do.
func StateDir(getenv func(string) string, root bool) (string, error) {
	systemd, _, _ := strings.Cut(getenv("STATE_DIRECTORY"), ":")
	for _, given := range []struct{ name, dir string }{
		{"LEADERRUN_STATE_DIR", getenv("LEADERRUN_STATE_DIR")},
		{"STATE_DIRECTORY", systemd},
	} {
		switch {
		case given.dir == "":
		case filepath.IsAbs(given.dir):
			return filepath.Clean(given.dir), nil
		default:
			return "", fmt.Errorf("file: %s=%q is not an absolute path", given.name, given.dir)
		}
	}
	if root {
		return "/var/lib/leaderrun", nil
	}
	// The XDG base directory specification: a path that is not absolute is to be ignored.
	if xdg := getenv("XDG_STATE_HOME"); filepath.IsAbs(xdg) {
		return filepath.Join(xdg, "leaderrun"), nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "leaderrun"), nil
	}
	return "", backends.WithHint(errors.New("file: there is no place for the state: HOME is not set"), otherDir)
}
