package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/backends"
)

var (
	errNotRegular = errors.New("it is not a regular file")
	errOtherUser  = errors.New("it belongs to user")
	errNetwork    = errors.New("it is on a network file system")

	// ErrStale: the token is not above one that was started on this host before.
	ErrStale = errors.New("the fencing token is not above the last one")
)

const otherDir = "choose a directory that you can write to: LEADERRUN_STATE_DIR=/some/dir, or --backend file:///some/dir"

// explain makes the one error that a person sees, with the path, and with a cure if there is one.
func explain(what, path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err // the path is named once
	}
	wrap := func(kind error, hint string) error {
		e := fmt.Errorf("file: %s %s: %w", what, path, err)
		if kind != nil {
			e = fmt.Errorf("%w: %w", e, kind)
		}
		if hint != "" {
			e = backends.WithHint(e, hint)
		}
		return e
	}
	is := func(targets ...error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
	switch {
	case is(unix.EACCES, unix.EPERM):
		return wrap(backends.ErrDenied, otherDir)
	case is(unix.EROFS):
		return wrap(nil, otherDir)
	case is(unix.ENOSPC, unix.EDQUOT):
		return wrap(nil, "free some space on it")
	case is(unix.ELOOP, unix.EMLINK): // FreeBSD answers EMLINK to O_NOFOLLOW
		return wrap(nil, "it is a symbolic link, and those are not followed here: remove it if it is not yours")
	case is(unix.ENOTDIR):
		return wrap(nil, "it has to be a directory, and inside the state directory not a symbolic link to one")
	case is(unix.EISDIR):
		return wrap(nil, "there is a directory in its place: remove it if it is not yours")
	case is(unix.ENAMETOOLONG):
		return wrap(backends.ErrBadKey, "use a shorter key: this file system does not take such long names")
	case is(errNotRegular, errOtherUser):
		return wrap(nil, "remove it if it is not in use, or "+otherDir)
	case is(errEmpty, errForeign, errDamaged):
		return wrap(nil, "restore it from a backup, or remove it while no candidate runs; its tokens start again at 1 then")
	case is(errLater):
		return wrap(nil, "use the newer leaderrun on this machine everywhere")
	case is(errNetwork):
		return wrap(nil, "its locks may not work across machines; add ?network=1 to the URL if you know that they do")
	case is(unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN, unix.EINTR, unix.ENOLCK, unix.ESTALE):
		return wrap(backends.ErrUnavailable, "")
	}
	return wrap(nil, "")
}

// ignoreUnsupported passes over a directory sync that the file system does not know.
func ignoreUnsupported(err error) error {
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) }
