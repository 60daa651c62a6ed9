package exec

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// NotFound says that there is no such command: exit status 127.
type NotFound struct {
	File string
	Path string // what was searched, "" when File has a slash
}

func (e *NotFound) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("%q: no such file", e.File)
	}
	return fmt.Sprintf("%q: not found in PATH", e.File)
}

// NotExecutable says that the command is there and cannot be executed: exit status 126.
type NotExecutable struct {
	File string // as it was found
	Err  error
}

func (e *NotExecutable) Error() string { return fmt.Sprintf("%q: %v", e.File, e.Err) }
func (e *NotExecutable) Unwrap() error { return e.Err }

// defaultPath is what execvp(3) searches when there is no PATH.
const defaultPath = "/bin:/usr/bin"

// LookPath finds a command as execvp(3) would, in the value of PATH of the command's environment env ("NAME=value";
// the last one counts, as for a shell). The error is a *NotFound or a *NotExecutable.
func LookPath(file string, env []string) (string, error) {
	if strings.Contains(file, "/") {
		return file, look(file)
	}
	if file == "" {
		return "", &NotFound{File: file}
	}
	path := defaultPath
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			path = value
		}
	}
	var denied error
	for dir := range strings.SplitSeq(path, ":") {
		found := "./" + file
		if dir != "" { // an empty one is the working directory
			found = strings.TrimSuffix(dir, "/") + "/" + file
		}
		err := look(found)
		if err == nil {
			return found, nil
		}
		if _, there := errors.AsType[*NotExecutable](err); there && denied == nil {
			denied = err // the search goes on: a later directory may have one that can be executed
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", &NotFound{File: file, Path: path}
}

func look(file string) error {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.ELOOP):
		return &NotExecutable{file, errors.Unwrap(err)}
	case err != nil:
		return &NotFound{File: file}
	case info.IsDir():
		return &NotExecutable{file, errors.New("is a directory")}
	}
	if err := unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS); err != nil {
		return &NotExecutable{file, err}
	}
	if !info.Mode().IsRegular() {
		return &NotExecutable{file, unix.EACCES}
	}
	return nil
}
