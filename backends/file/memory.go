package file

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/backends"
)

// Memory is what this host remembers of the terms that it started, per store and key, whatever the store is: a token
// that is not above the last one comes from a store that was restored from a backup, and a record that is missing where
// a term was started has been deleted. Methods may be called concurrently, also by several processes.
//
// It outlives any process that is killed at any moment. It is not synced to the disk for each term: a power failure may
// take the last term's entry along with every process that the entry is about, and what is left is an earlier one. The
// file itself is synced when it is made, so it is never found empty.
type Memory struct{ path string }

// Remembered is the last term of a key that was started on this host.
type Remembered struct {
	Token int64
	TTL   time.Duration
	Boot  string // boot id: processes of another boot are gone
	Clean bool   // its tree was confirmed gone
}

// note is the document of a memory file. The file's name is a hash, so it says what it is about.
type note struct {
	Store string `json:"store"`
	Key   string `json:"key"`
	Token int64  `json:"token"`
	TTL   int64  `json:"ttl"` // ms
	Boot  string `json:"boot"`
	Clean bool   `json:"clean"`
}

// OpenMemory makes the directory memory in the state directory, if there is none.
func OpenMemory(stateDir string) (*Memory, error) {
	if !filepath.IsAbs(stateDir) {
		return nil, fmt.Errorf("file: the state directory %q is not an absolute path", stateDir)
	}
	actual, err := makeDir(stateDir)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(actual, "memory")
	if err := makeParents(path, 0o700); err != nil {
		return nil, explain("create the directory", path, err)
	}
	d, err := openDir(path) // refuses a link
	if err != nil {
		return nil, err
	}
	d.close()
	return &Memory{path}, nil
}

// Recall returns what is remembered of a key. ok is false if no term of it was ever started here.
func (m *Memory) Recall(store, key string) (r Remembered, ok bool, err error) {
	d, err := openDir(m.path)
	if err != nil {
		return r, false, err
	}
	defer d.close()
	f, _, err := d.open(memoryName(store, key))
	switch {
	case errors.Is(err, unix.ENOENT):
		return r, false, nil
	case err != nil:
		return r, false, err
	}
	defer f.Close()
	_, n, err := readNote(f, store, key)
	if err != nil {
		return r, false, err
	}
	return Remembered{n.Token, time.Duration(n.TTL) * time.Millisecond, n.Boot, n.Clean}, n.Token > 0, nil
}

// Started remembers a term; it has to succeed before the term's child starts. A token that is not above the remembered
// one is refused with ErrStale.
func (m *Memory) Started(store, key string, token int64, ttl time.Duration, boot string) error {
	return m.update(store, key, func(n *note) (bool, error) {
		if token <= n.Token {
			return false, backends.WithHint(
				fmt.Errorf("file: %s has started token %d of %s before, and is given %d now: %w", m.path, n.Token, key, token, ErrStale),
				"was the store restored from a backup, or the key deleted? a resource that checks tokens would refuse this one; "+
					"remove "+filepath.Join(m.path, memoryName(store, key))+" to accept it")
		}
		n.Token, n.TTL, n.Boot, n.Clean = token, (ttl + time.Millisecond - 1).Milliseconds(), boot, false
		return true, nil
	})
}

// Ended notes that the tree of the term is confirmed gone. It does nothing if a later term was started since.
func (m *Memory) Ended(store, key string, token int64) error {
	return m.update(store, key, func(n *note) (bool, error) {
		if n.Token != token || n.Clean {
			return false, nil
		}
		n.Clean = true
		return true, nil
	})
}

// update changes a memory file under its lock. The file is written in place, so the lock is always that of the file
// which the name leads to.
func (m *Memory) update(store, key string, change func(*note) (bool, error)) error {
	d, err := openDir(m.path)
	if err != nil {
		return err
	}
	defer d.close()
	f, id, err := d.openOrCreate(memoryName(store, key), memoryKind)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := lockBriefly(f); err != nil {
		return explain("lock", f.Name(), err)
	}
	b, n, err := readNote(f, store, key)
	if err != nil {
		return err
	}
	if write, err := change(&n); !write {
		return err
	}
	if b.doc, err = json.Marshal(n); err != nil {
		return err
	}
	b.kind, b.serial, b.inode = memoryKind, b.serial+1, id.inode
	if err := writeBlock(f, b); err != nil {
		return explain("write", f.Name(), err)
	}
	return nil
}

func readNote(f *os.File, store, key string) (block, note, error) {
	n := note{Store: store, Key: key}
	b, err := readBlock(f, memoryKind)
	if err == nil && len(b.doc) > 0 {
		err = json.Unmarshal(b.doc, &n)
		if err != nil || n.Token <= 0 || n.Store != store || n.Key != key {
			err = errDamaged
		}
	}
	if err != nil {
		return b, n, explain("read", f.Name(), err)
	}
	return b, n, nil
}

// lockBriefly waits for others that are in the middle of a change, which takes microseconds: who does not get the lock
// in two seconds is kept from it by a process that was stopped there.
func lockBriefly(f *os.File) error {
	for deadline := time.Now().Add(2 * time.Second); ; time.Sleep(time.Millisecond) {
		ok, err := tryLock(f)
		switch {
		case err != nil || ok:
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("another process holds it: %w", unix.EAGAIN)
		}
	}
}

func memoryName(store, key string) string {
	sum := sha256.Sum256([]byte(store + "\x00" + key))
	return hex.EncodeToString(sum[:16])
}
