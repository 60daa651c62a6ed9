package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Sweep kills what is left of earlier terms on this host: every process whose environment, as it was at its last exec,
// has name=VALUE with a VALUE that begins with prefix and is not keep; not this one, nor its guard and sentinel. It
// goes on until a pass over all processes finds none alive, or ctx is done; then the error names one that is. What lost
// its environment (env -i, sudo, a process title written over it) is not found: it is a net, and no proof.
// ARCHITECTURE.md G12.
func Sweep(ctx context.Context, name, prefix, keep string) (Swept, error) {
	s := sweeper{mark: []byte(name + "=" + prefix), keep: []byte(name + "=" + keep), sent: map[int]string{}}
	for clean, pass := 0, 0; ; pass++ {
		left := s.pass()
		if left == 0 {
			clean++
		} else {
			clean = 0
		}
		// One that forks and exits all the time can slip through a pass. When nothing was ever found, there is none.
		if clean > 1 || clean == 1 && len(s.sent) == 0 {
			return Swept{Killed: len(s.sent), Unreadable: s.unreadable}, nil
		}
		select {
		case <-ctx.Done():
			return Swept{Killed: len(s.sent), Unreadable: s.unreadable},
				fmt.Errorf("exec: process %d of an earlier term is still alive: %w", s.last, context.Cause(ctx))
		case <-time.After(sweepPause(pass)):
		}
	}
}

type sweeper struct {
	mark, keep []byte
	buf        []byte
	sent       map[int]string // to when the process was started, as proc(5) has it: numbers come back
	unreadable int
	last       int
}

// pass kills what it finds, and counts what of it was alive. One that is dying has lost its environment before its
// files are closed, so those that were killed before are looked at by number.
func (s *sweeper) pass() (left int) {
	skip := self.ours()
	s.unreadable = 0
	for pid, since := range s.sent {
		if started(pid) == since && !ended(pid) {
			left++
			s.last = pid
		}
	}
	for _, entry := range names("/proc") {
		pid, err := strconv.Atoi(entry)
		if err != nil || skip[pid] || !s.marked(entry) || ended(pid) {
			continue
		}
		left++
		s.last = pid
		s.sent[pid] = started(pid)
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	return left
}

// started is field 22 of /proc/<pid>/stat, "" when there is no such process.
func started(pid int) string {
	fields := stat(pid)
	if len(fields) < 20 {
		return ""
	}
	return string(fields[19])
}

// marked reports whether a process carries the mark.
func (s *sweeper) marked(pid string) bool {
	f, err := os.OpenFile("/proc/"+pid+"/environ", os.O_RDONLY, 0)
	if err == nil {
		defer f.Close()
		err = s.read(f)
	}
	if err != nil {
		if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
			s.unreadable++
		}
		return false
	}
	for entry := range bytes.SplitSeq(s.buf, []byte{0}) {
		if bytes.HasPrefix(entry, s.mark) && !bytes.Equal(entry, s.keep) {
			return true
		}
	}
	return false
}

// read reads an environment into s.buf, whatever its length.
func (s *sweeper) read(r io.Reader) error {
	if s.buf == nil {
		s.buf = make([]byte, 0, 64<<10)
	}
	s.buf = s.buf[:0]
	for {
		if len(s.buf) == cap(s.buf) {
			s.buf = append(s.buf, 0)[:len(s.buf)]
		}
		n, err := r.Read(s.buf[len(s.buf):cap(s.buf)])
		s.buf = s.buf[:len(s.buf)+n]
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
