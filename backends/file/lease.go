package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/backends"
)

// lease is an open lease file.
type lease struct {
	dir  *dir
	name string
	f    *os.File
	id   identity
}

// content is what a lease file says.
type content struct {
	serial int64
	inode  uint64           // of the file that it was written to
	record *backends.Record // nil: nobody has acquired yet
}

func (b *Backend) openLease(name string) (*lease, error) {
	d, err := b.open()
	if err != nil {
		return nil, err
	}
	f, id, err := d.openOrCreate(name, leaseKind)
	if err != nil {
		d.close()
		return nil, err
	}
	return &lease{d, name, f, id}, nil
}

// openOrCreate opens a file of ours, and makes it if there is none.
func (d *dir) openOrCreate(name, kind string) (*os.File, identity, error) {
	for try := 0; ; try++ {
		f, id, err := d.open(name)
		if !errors.Is(err, unix.ENOENT) || try == 8 { // not made, or deleted again and again
			return f, id, err
		}
		if err := d.create(name, kind); err != nil {
			return nil, identity{}, err
		}
	}
}

func (l *lease) path() string { return l.dir.in(l.name) }

func (l *lease) close() {
	_ = l.f.Close()
	l.dir.close()
}

// current reports whether the path still leads to this file.
func (l *lease) current() (bool, error) { return l.dir.holds(l.name, l.id) }

func (l *lease) read() (content, error) {
	c, err := readContent(l.f)
	if err != nil {
		return c, explain("read", l.path(), err)
	}
	return c, nil
}

// write makes r the record, after the content that c is. durable: it survives a power failure.
func (l *lease) write(c content, r backends.Record, durable bool) error {
	c.inode = l.id.inode
	if err := writeContent(l.f, c, r); err != nil {
		return explain("write", l.path(), err)
	}
	if !durable {
		return nil
	}
	if err := syncData(l.f); err != nil {
		return explain("sync", l.path(), err)
	}
	if c.record == nil { // the file may be new
		return l.dir.sync()
	}
	return nil
}

func readContent(f *os.File) (content, error) {
	b, err := readBlock(f, leaseKind)
	if err != nil {
		return content{}, err
	}
	c := content{serial: b.serial, inode: b.inode}
	if len(b.doc) == 0 {
		return c, nil
	}
	if c.record, err = backends.ParseRecord(b.doc); err != nil {
		return content{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return c, nil
}

func writeContent(f *os.File, before content, r backends.Record) error {
	doc, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := backends.ParseRecord(doc); err != nil {
		return err // nobody could read it again
	}
	return writeBlock(f, block{kind: leaseKind, serial: before.serial + 1, inode: before.inode, doc: doc})
}

// token of the last term, 0 for none.
func (c content) token() int64 {
	if c.record == nil {
		return 0
	}
	return c.record.Token
}

// version names this content. It never comes back: the serial rises with each write, and where a deleted file took the
// serials along, so it took the tokens, which is a defect of another kind.
func (c content) version() backends.Version {
	if c.record == nil {
		return ""
	}
	return backends.Version(fmt.Sprintf("%d.%d", c.record.Token, c.serial))
}

// inherited is the record as the next holder of the lock has to take it. The lock is the proof that the term is over,
// so nothing is owed, unless the content was not written to this file: a copy put in the original's place says nothing
// about who still runs.
func (c content) inherited(id identity) *backends.Record {
	if c.record == nil {
		return nil
	}
	r := *c.record
	if c.inode == id.inode {
		r.Released, r.Owe = true, 0
	} else {
		r.Released, r.Owe = false, max(r.Owe, r.TTL)
	}
	return &r
}
