package file

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// dir is an open directory. All files are opened relative to it, by one flat name and without following a link, so
// nothing outside is ever touched, whatever is put into it.
type dir struct {
	path string // real path
	f    *os.File
	id   identity
}

// identity tells files apart, also under one path.
type identity struct{ dev, inode uint64 }

// makeDir creates a directory with its parents and returns its real path. Root's is open to readers: what is in it is
// no secret, and everybody may ask who leads.
func makeDir(path string) (string, error) {
	mode := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o755
	}
	if err := makeParents(path, mode); err != nil {
		return "", explain("create the directory", path, err)
	}
	actual, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", explain("find the directory", path, err)
	}
	return actual, nil
}

// makeParents is os.MkdirAll that makes each new directory durable: with it a power failure would take the tokens.
func makeParents(path string, mode os.FileMode) error {
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(path)
	if parent == path {
		return os.ErrNotExist
	}
	if err := makeParents(parent, mode); err != nil {
		return err
	}
	if err := os.Mkdir(path, mode); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	p, err := os.Open(parent)
	if err != nil {
		return nil // a parent that we may not read; it is not ours to look after
	}
	defer p.Close()
	return ignoreUnsupported(p.Sync())
}

// openDir opens the directory at a real path.
func openDir(path string) (*dir, error) {
	fd, err := retry(func() (int, error) {
		return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, explain("open the directory", path, err)
	}
	d := &dir{path: path, f: os.NewFile(uintptr(fd), path)}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		d.close()
		return nil, explain("look at the directory", path, err)
	}
	d.id = identityOf(&st)
	return d, nil
}

func (d *dir) fd() int               { return int(d.f.Fd()) }
func (d *dir) close()                { _ = d.f.Close() }
func (d *dir) in(name string) string { return filepath.Join(d.path, name) }

// open opens a file of ours for reading and writing, after making sure that it is one that we may trust.
func (d *dir) open(name string) (*os.File, identity, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(d.fd(), name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	})
	if err != nil {
		return nil, identity{}, explain("open", d.in(name), err)
	}
	_ = unix.SetNonblock(fd, false) // only the opening of a FIFO or a device must not block
	f := os.NewFile(uintptr(fd), d.in(name))
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = f.Close()
		return nil, identity{}, explain("look at", d.in(name), err)
	}
	if err := trusted(&st); err != nil {
		_ = f.Close()
		return nil, identity{}, explain("open", d.in(name), err)
	}
	return f, identityOf(&st), nil
}

// trusted says whether a file may be one of ours. Another user's could be changed or locked by them at any time.
func trusted(st *unix.Stat_t) error {
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return errNotRegular
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%w %d", errOtherUser, st.Uid)
	}
	return nil
}

// create makes a file that holds an empty block of this kind, if there is none. It appears whole or not at all: it is
// written and synced under another name first, and linked, never renamed, so that it cannot replace another's.
func (d *dir) create(name, kind string) error {
	var random [8]byte
	_, _ = rand.Read(random[:])
	temp := ".new-" + hex.EncodeToString(random[:])
	mode := uint32(0o600)
	if os.Geteuid() == 0 {
		mode = 0o644
	}
	fd, err := retry(func() (int, error) {
		return unix.Openat(d.fd(), temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	})
	if err != nil {
		return explain("create", d.in(name), err)
	}
	f := os.NewFile(uintptr(fd), d.in(temp))
	defer f.Close()
	defer func() { _ = unix.Unlinkat(d.fd(), temp, 0) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return explain("create", d.in(name), err)
	}
	if err := writeBlock(f, block{kind: kind, inode: identityOf(&st).inode}); err != nil {
		return explain("create", d.in(name), err)
	}
	if err := f.Sync(); err != nil {
		return explain("create", d.in(name), err)
	}
	if err := unix.Linkat(d.fd(), temp, d.fd(), name, 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return explain("create", d.in(name), err)
	}
	return nil
}

// sync makes the names in the directory durable.
func (d *dir) sync() error {
	if err := ignoreUnsupported(d.f.Sync()); err != nil {
		return explain("sync the directory", d.path, err)
	}
	return nil
}

// holds reports whether name, and the directory's own path, still lead to this file.
func (d *dir) holds(name string, id identity) (bool, error) {
	var st unix.Stat_t
	for _, look := range []struct {
		want identity
		stat func() error
	}{
		{d.id, func() error { return unix.Stat(d.path, &st) }},
		{id, func() error { return unix.Fstatat(d.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW) }},
	} {
		err := look.stat()
		switch {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
			return false, nil
		case err != nil:
			return false, explain("look at", d.in(name), err)
		case identityOf(&st) != look.want:
			return false, nil
		}
	}
	return true, nil
}

// readBlock reads a file that another process may be writing: what does not fit together is read again for some
// milliseconds, which is far longer than a write takes.
func readBlock(f *os.File, kind string) (block, error) {
	buf := make([]byte, blockSize+1)
	for try := 0; ; try++ {
		n, err := f.ReadAt(buf, 0)
		if n == 0 && err != nil && !isEOF(err) {
			return block{}, err
		}
		b, err := decode(kind, buf[:n])
		if err == nil || try == 8 {
			return b, err
		}
		time.Sleep(time.Millisecond)
	}
}

// writeBlock writes all of a file with one call, so that no reader sees less.
func writeBlock(f *os.File, b block) error {
	data, err := b.encode()
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	return err
}

func identityOf(st *unix.Stat_t) identity { return identity{uint64(st.Dev), uint64(st.Ino)} }

// retry repeats a call that a signal interrupted.
func retry[T any](call func() (T, error)) (T, error) {
	for {
		v, err := call()
		if !errors.Is(err, unix.EINTR) {
			return v, err
		}
	}
}
