package file_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/file"
)

func TestNetworkMagic(t *testing.T) {
	for magic, want := range map[uint32]bool{
		0x6969: true, 0xff534d42: true, 0xfe534d42: true, 0x01021997: true, 0x65735546: true,
		unix.EXT4_SUPER_MAGIC: false, unix.XFS_SUPER_MAGIC: false, unix.BTRFS_SUPER_MAGIC: false,
		unix.TMPFS_MAGIC: false, unix.OVERLAYFS_SUPER_MAGIC: false,
	} {
		if got := file.NetworkMagic(magic); got != want {
			t.Errorf("network file system %#x = %v, want %v", magic, got, want)
		}
	}
}

// blocked counts the requests that wait for a lock on this file.
func blocked(t *testing.T, path string) int {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	n := 0
	inode := fmt.Sprintf(":%d ", st.Ino)
	for line := range strings.Lines(string(read(t, "/proc/locks"))) {
		if strings.Contains(line, "->") && strings.Contains(line, "FLOCK") && strings.Contains(line, inode) {
			n++
		}
	}
	return n
}

// The kernel's queue is first in, first out, and we do not jump it: each comes in the order in which it began to wait,
// and who gives up and comes back is last.
func TestFIFO(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, lease)
	b := open(t, dir)
	holder, err := b.Enter(t.Context(), candidate("first"))
	if err != nil {
		t.Fatalf("Enter = %v", err)
	}
	r, version := lead(t, holder)
	var queue []backends.Entry
	for i := range 4 {
		queue = append(queue, enter(t, dir, fmt.Sprint("waiter-", i)))
		within(t, "the waiter is in the kernel's queue", patience, func() bool { return blocked(t, path) == i+1 })
	}
	r.Released = true
	if err := holder.Release(t.Context(), r, version); err != nil {
		t.Fatalf("Release = %v", err)
	}
	leave(t, holder)
	again, err := b.Enter(t.Context(), candidate("first"))
	if err != nil {
		t.Fatalf("Enter = %v", err)
	}
	queue = append(queue, again)
	for i, e := range queue {
		lead(t, e)
		for _, behind := range queue[i+1:] {
			if v := view(t, behind); v.Place == 0 {
				t.Fatalf("two hold the lock, or one jumped the queue")
			}
		}
		within(t, "the others are in the kernel's queue", patience, func() bool { return blocked(t, path) == len(queue)-1-i })
		leave(t, e)
	}
}

// What the process starts does not inherit the lock: a daemon that the child left behind would keep it for ever.
func TestNothingIsInherited(t *testing.T) {
	dir := t.TempDir()
	lead(t, enter(t, dir, "leader"))
	enter(t, dir, "waiter")
	out, err := exec.Command("ls", "-l", "/proc/self/fd").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "->") {
		t.Fatalf("ls = %v, %s", err, out)
	}
	if strings.Contains(string(out), dir) {
		t.Fatalf("a child of this process has a descriptor of ours:\n%s", out)
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// public makes a directory that other users can reach.
func public(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "leaderrun-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Another user meets root's files, and is told so.
func TestAnotherUser(t *testing.T) {
	needRoot(t)
	for name, prepare := range map[string]func(dir string){
		"root's lease file": func(dir string) {
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			e := enter(t, dir, "root")
			lead(t, e)
			leave(t, e)
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		},
		"directory not writable": func(string) {},
		"directory not readable": func(dir string) {
			if err := os.Chmod(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := public(t)
			prepare(dir)
			before := names(t, dir)
			p := start(t, "nobody", dir)
			lines := p.lines(t)
			if len(lines) < 3 {
				t.Fatalf("the helper said %q", lines)
			}
			for _, line := range lines {
				var got struct {
					What, Error  string
					Denied, Hint bool
				}
				if err := json.Unmarshal([]byte(line), &got); err != nil {
					t.Fatalf("the helper said %q", line)
				}
				if got.What == "open" && got.Error == "<nil>" {
					continue // entering is what fails
				}
				if !got.Denied || !got.Hint || strings.Count(got.Error, dir) != 1 {
					t.Errorf("%s = %+v, want ErrDenied with a hint, naming the path once", got.What, got)
				}
			}
			if after := names(t, dir); !slices.Equal(after, before) {
				t.Errorf("the directory holds %v, before %v", after, before)
			}
		})
	}
}

// Root does not use a file that another user made, and could change at any time.
func TestFileOfAnotherUser(t *testing.T) {
	needRoot(t)
	dir, path := leased(t, 2)
	if err := os.Chown(path, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	_, err := open(t, dir).Enter(t.Context(), candidate("a"))
	explained(t, err, path)
}

func mount(t *testing.T, options string) string {
	t.Helper()
	needRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("cannot mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// On a full disk nothing half made is left, and a file that is there already can be used.
func TestDiskFull(t *testing.T) {
	dir := mount(t, "size=64k")
	e := enter(t, dir, "first")
	r, version := lead(t, e)
	filler, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
	if err := filler.Close(); err != nil {
		t.Fatal(err)
	}
	before := names(t, dir)
	c := candidate("other")
	c.Key = "/other"
	_, err = open(t, dir).Enter(t.Context(), c)
	explained(t, err, filepath.Join(dir, "other.lease"))
	m, err := file.OpenMemory(dir)
	if err == nil {
		err = m.Started("store", key, 1, ttl, "boot")
		before = append(before, "memory")
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("remembering on a full disk = %v, want ENOSPC", err)
	}
	slices.Sort(before)
	if after := names(t, dir); !slices.Equal(after, before) {
		t.Fatalf("the directory holds %v, before %v", after, before)
	}
	if version, err = e.Beat(t.Context(), r, version); err != nil {
		t.Fatalf("Beat on a full disk = %v", err)
	}
	r.Released = true
	if err := e.Release(t.Context(), r, version); err != nil {
		t.Fatalf("Release on a full disk = %v", err)
	}
	second := enter(t, dir, "second")
	lead(t, second)
	leave(t, second)
}

func TestReadOnly(t *testing.T) {
	dir := mount(t, "size=64k")
	e := enter(t, dir, "first")
	lead(t, e)
	leave(t, e)
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	_, err := open(t, dir).Enter(t.Context(), candidate("a"))
	explained(t, err, filepath.Join(dir, lease))
	_, err = file.Open(filepath.Join(dir, "below"), file.Options{})
	explained(t, err, filepath.Join(dir, "below"))
}
