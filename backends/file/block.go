package file

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
)

// blockSize is the size of every file of this package. It never changes, so a write never needs new space and never
// leaves an end of an older one behind. A usual document lies within the first 512 bytes, and what follows are the same
// spaces as before: a power failure cannot tear it on a disk that writes whole sectors.
const blockSize = 4096

// Kinds of files, as their first word.
const (
	leaseKind  = "leaderrun-lease"
	memoryKind = "leaderrun-memory"
)

// block is a file's content: one document with a header line that a person can read, padded with spaces.
type block struct {
	kind   string
	serial int64  // one more with each write
	inode  uint64 // of the file that it was written to: a copy is told from the original by it
	doc    []byte // "": nothing written yet
}

var (
	errEmpty   = errors.New("it is empty")
	errForeign = errors.New("it is not a file of leaderrun")
	errLater   = errors.New("it was written by a later leaderrun")
	errDamaged = errors.New("it is damaged")
	errTooBig  = errors.New("the document is too big")
)

// encode returns the blockSize bytes of b.
func (b block) encode() ([]byte, error) {
	header := fmt.Sprintf("%s 1 serial=%d inode=%d length=%d", b.kind, b.serial, b.inode, len(b.doc))
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	sum.Write([]byte(header))
	sum.Write(b.doc)
	out := fmt.Appendf(make([]byte, 0, blockSize), "%s sum=%08x\n", header, sum.Sum32())
	out = append(out, b.doc...)
	out = append(out, '\n')
	if len(out) > blockSize-1 {
		return nil, fmt.Errorf("%w: %d bytes", errTooBig, len(b.doc))
	}
	out = append(out, bytes.Repeat([]byte(" "), blockSize-1-len(out))...)
	return append(out, '\n'), nil
}

// decode reads a file's bytes. What it accepts is exactly what encode makes: anything else is an error, never an
// empty block.
func decode(kind string, data []byte) (block, error) {
	header, rest, _ := bytes.Cut(data, []byte("\n"))
	word, version, _ := bytes.Cut(header, []byte(" "))
	switch {
	case len(data) == 0:
		return block{}, errEmpty
	case string(word) != kind:
		return block{}, errForeign
	case !bytes.HasPrefix(version, []byte("1 ")):
		return block{}, errLater
	}
	b := block{kind: kind}
	var length int
	var sum uint32
	n, err := fmt.Sscanf(string(version), "1 serial=%d inode=%d length=%d sum=%x", &b.serial, &b.inode, &length, &sum)
	if err != nil || n != 4 || length < 0 || length > len(rest) {
		return block{}, errDamaged
	}
	if length > 0 {
		b.doc = bytes.Clone(rest[:length])
	}
	if again, err := b.encode(); err != nil || !bytes.Equal(again, data) {
		return block{}, errDamaged
	}
	return b, nil
}
