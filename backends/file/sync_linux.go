package file

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData makes a file's content durable. Its size and place on the disk never change, so fdatasync is enough.
func syncData(f *os.File) error {
	_, err := retry(func() (struct{}, error) { return struct{}{}, unix.Fdatasync(int(f.Fd())) })
	return err
}
