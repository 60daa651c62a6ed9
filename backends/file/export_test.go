package file

import "github.com/leaderrun/leaderrun/backends"

const (
	BlockSize = blockSize
	LeaseKind = leaseKind
)

// DecodeEncode decodes a file's bytes and encodes what it read.
func DecodeEncode(kind string, data []byte) ([]byte, error) {
	b, err := decode(kind, data)
	if err != nil {
		return nil, err
	}
	return b.encode()
}

// Encode makes a file's bytes.
func Encode(kind string, serial int64, inode uint64, doc []byte) ([]byte, error) {
	return block{kind, serial, inode, doc}.encode()
}

// Hang makes an entry behave as if one of its calls hung in the kernel, until resume.
func Hang(e backends.Entry) (resume func()) {
	e.(*entry).mu.Lock()
	return e.(*entry).mu.Unlock
}
