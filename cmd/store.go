package cmd

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/file"
)

// A store is an opened backend and what the command line has to know about it.
type store struct {
	backends.Backend
	scheme string
	// memory is the directory of what this host remembers.
	memory string
	// local says that memory is the store's own directory: a failure there is the store's.
	local bool
}

// opener is what opening a store depends on.
type opener struct {
	getenv func(string) string
	root   bool
}

// open is the one place that knows which stores there are. A new one is one more case.
func (o opener) open(raw string) (*store, error) {
	u, err := parseBackend(raw)
	if err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "file":
		return o.openFile(u)
	case "redis", "rediss":
		return nil, usage(errors.New("redis:// is refused: a Redis key is not decided by consensus, and a fail-over can lose it, so that two would lead"),
			"on one host use "+fileExample+", which is the default")
	default:
		return nil, usage(fmt.Errorf("backend %s:// is not known", u.Scheme), "there is "+fileExample)
	}
}

const fileExample = "file:///var/lib/leaderrun"

// parseBackend reads a backend URL. Its errors do not repeat the URL, which may hold a password.
func parseBackend(raw string) (*url.URL, error) {
	if raw == "" || raw == "file" || raw == "file:" || raw == "file://" {
		return &url.URL{Scheme: "file"}, nil
	}
	u, err := url.Parse(raw)
	if err != nil {
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return nil, usage(fmt.Errorf("the backend is not a URL: %w", err), "a backend looks like "+fileExample)
	}
	if u.Scheme == "" || u.Opaque != "" {
		return nil, usage(errors.New("the backend is not a URL with a scheme"), "a backend looks like "+fileExample)
	}
	return u, nil
}

// openFile opens file:///dir[?network=1]; without a directory, the one of this user.
func (o opener) openFile(u *url.URL) (*store, error) {
	if u.Host != "" || u.User != nil {
		return nil, usage(errors.New("the directory of a file:// backend is absolute"),
			"three slashes: file:///"+strings.TrimPrefix(u.Host+u.Path, "/"))
	}
	network := false
	for name, values := range u.Query() {
		if name != "network" || len(values) != 1 || values[0] != "0" && values[0] != "1" {
			return nil, usage(fmt.Errorf("file:// does not know %q", name), "the only one is ?network=1, to allow a network file system")
		}
		network = values[0] == "1"
	}
	own, err := "", error(nil)
	if u.Path == "" || network {
		own, err = file.StateDir(o.getenv, o.root)
	}
	if err != nil {
		return nil, usage(err, "") // of the variable that names it
	}
	dir, memory := u.Path, u.Path
	if dir == "" {
		dir, memory = own, own
	}
	if network {
		// Others write the store's directory too; this host's memory is not theirs.
		memory = own
	}
	b, err := file.Open(dir, file.Options{Network: network})
	if err != nil {
		return nil, storeError{err}
	}
	return &store{Backend: b, scheme: "file", memory: memory, local: !network}, nil
}
