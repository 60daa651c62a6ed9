package file_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/file"
)

// explained fails unless the error names the path and knows a cure.
func explained(t *testing.T, err error, path string) {
	t.Helper()
	var hint backends.Hinter
	if err == nil || !strings.Contains(err.Error(), path) || !errors.As(err, &hint) || hint.Hint() == "" {
		t.Fatalf("error = %v, want one that names %s and has a hint", err, path)
	}
	if strings.Count(err.Error(), path) != 1 || strings.Contains(err.Error(), "\n") {
		t.Fatalf("error = %q, want one line that names the path once", err)
	}
	if errors.Is(err, backends.ErrUnavailable) || errors.Is(err, backends.ErrLost) {
		t.Fatalf("error = %v, which would be tried again", err)
	}
}

// A file that is not as it was written is an error, and stays as it is.
func TestBrokenFiles(t *testing.T) {
	dir, path := leased(t, 3)
	good := read(t, path)
	flipped := bytes.Clone(good)
	flipped[bytes.Index(good, []byte(`"token":3`))+8] = '1'
	norecord, err := file.Encode(file.LeaseKind, 9, 9, []byte(`{"token":0}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"empty": {}, "half": good[:200], "a byte short": good[:len(good)-1], "longer": append(bytes.Clone(good), '\n'),
		"foreign": []byte("[Unit]\nDescription=x\n"), "zeros": make([]byte, 4096), "a lower token": flipped,
		"later": []byte("leaderrun-lease 2 whatever\n"), "no record": norecord,
	} {
		write(t, path, data)
		_, err := open(t, dir).Enter(t.Context(), candidate("a"))
		if explained(t, err, path); !bytes.Equal(read(t, path), data) {
			t.Fatalf("%s: the file was changed", name)
		}
	}
	write(t, path, good)
	if v := awaitHead(t, enter(t, dir, "a")); v.Token != 4 {
		t.Fatalf("token = %d after the file was restored, want 4", v.Token)
	}
}

// What is planted in the directory is refused, and nothing behind it is touched.
func TestPlanted(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	for name, plant := range map[string]func(path string) error{
		"link to a file":     func(path string) error { write(t, outside, []byte("precious")); return os.Symlink(outside, path) },
		"link to nothing":    func(path string) error { return os.Symlink(outside+"-2", path) },
		"link to itself":     func(path string) error { return os.Symlink(path, path) },
		"directory":          func(path string) error { return os.Mkdir(path, 0o700) },
		"FIFO":               func(path string) error { return unix.Mkfifo(path, 0o600) },
		"another name of it": func(path string) error { write(t, outside, []byte("precious")); return os.Link(outside, path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, lease)
			if err := plant(path); err != nil {
				t.Fatal(err)
			}
			_, err := open(t, dir).Enter(t.Context(), candidate("a"))
			explained(t, err, path)
			if got := names(t, dir); !slices.Equal(got, []string{lease}) {
				t.Fatalf("the directory holds %v, want the planted one alone", got)
			}
			if _, err := os.Lstat(outside + "-2"); err == nil {
				t.Fatalf("a file was made outside the directory")
			}
			if data, err := os.ReadFile(outside); err == nil && string(data) != "precious" {
				t.Fatalf("the file outside is now %q", data)
			}
		})
	}
}

func TestPlantedMemory(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "memory")); err != nil {
		t.Fatal(err)
	}
	_, err := file.OpenMemory(dir)
	explained(t, err, filepath.Join(dir, "memory"))
	if got := names(t, outside); len(got) != 0 {
		t.Fatalf("made outside the directory: %v", got)
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	if _, err := file.Open("relative", file.Options{}); err == nil {
		t.Fatalf("Open of a relative path = nil")
	}
	write(t, filepath.Join(dir, "plain"), nil)
	for _, path := range []string{"plain", "plain/below"} {
		if _, err := file.Open(filepath.Join(dir, path), file.Options{}); err == nil {
			t.Errorf("Open(%s) = nil, want an error", path)
		}
	}
	// A directory may be reached by a link; what names the store is where it is.
	if err := os.Symlink("real/deep", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	open(t, filepath.Join(dir, "real", "deep"))
	if got, want := enter(t, filepath.Join(dir, "link"), "a").Store(), enter(t, filepath.Join(dir, "real/deep"), "b").Store(); got != want {
		t.Fatalf("Store = %q by a link, %q without", got, want)
	}
	if got := names(t, filepath.Join(dir, "real", "deep")); !slices.Equal(got, []string{lease}) {
		t.Fatalf("the directory holds %v, want one lease file", got)
	}
}

// Keys become flat names, and different keys different names.
func TestFileNames(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	want := []string{}
	for k, name := range map[string]string{
		"/a": "a.lease", "/a/b": "a,b.lease", "/ab": "ab.lease", "/a.b": "a.b.lease", "/memory": "memory.lease", "/.x/..y": ".x,..y.lease",
	} {
		c := candidate("x")
		c.Key = k
		e, err := b.Enter(t.Context(), c)
		if err != nil {
			t.Fatalf("Enter(%s) = %v", k, err)
		}
		if v := view(t, e); v.Place != 0 {
			t.Fatalf("%s meets another key", k)
		}
		defer leave(t, e)
		want = append(want, name)
	}
	slices.Sort(want)
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Fatalf("the directory holds %v, want %v", got, want)
	}
}
