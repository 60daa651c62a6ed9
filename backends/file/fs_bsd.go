//go:build darwin || freebsd || dragonfly

package file

import "golang.org/x/sys/unix"

// checkLocal refuses a file system that the kernel does not call local.
func (d *dir) checkLocal() error {
	var st unix.Statfs_t
	_, err := retry(func() (struct{}, error) { return struct{}{}, unix.Fstatfs(d.fd(), &st) })
	if err != nil {
		return explain("look at the file system of", d.path, err)
	}
	if uint64(st.Flags)&unix.MNT_LOCAL == 0 {
		return explain("use the directory", d.path, errNetwork)
	}
	return nil
}
