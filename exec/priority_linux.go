package exec

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// priority is what protects the guard from a busy machine, where it is allowed to: a better nice value on the main
// thread, which polls, kills and forks; an OOM score that spares it; its memory locked. The child gets the values that
// we had. Nothing depends on any of it, so no error is reported. ARCHITECTURE.md G17.
type priority struct {
	nice    int // as it was
	better  int // 0: we may not change it
	oom     []byte
	oomFile int // -1: we may not change it
}

const (
	wantedNice = -10
	wantedOOM  = "-1000"
)

// take reads what is there and improves on it.
func (p *priority) take() {
	// MCL_ONFAULT locks what is touched: without it an idle guard would weigh 40 MB. Only without a limit, since a
	// runtime that cannot map memory later would crash.
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) == nil && (limit.Cur == unix.RLIM_INFINITY || unix.Geteuid() == 0) {
		_ = unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT)
	}
	if raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil { // the system call says 20 - nice
		p.nice = 20 - raw
		if p.nice > wantedNice && unix.Setpriority(unix.PRIO_PROCESS, 0, wantedNice) == nil {
			p.better = wantedNice
		}
	}
	p.oomFile = -1
	fd, err := unix.Open("/proc/self/oom_score_adj", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	buf := make([]byte, 16)
	n, err := unix.Read(fd, buf)
	if err == nil {
		_, err = unix.Pwrite(fd, []byte(wantedOOM), 0)
	}
	if err != nil {
		unix.Close(fd)
		return
	}
	p.oom, p.oomFile = bytes.TrimSpace(buf[:n]), fd
}

// give puts the values back that we had, for a fork.
func (p *priority) give() {
	if p.better != 0 {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, p.nice)
	}
	if p.oomFile >= 0 {
		_, _ = unix.Pwrite(p.oomFile, p.oom, 0)
	}
}

// raise is the opposite of give.
func (p *priority) raise() {
	if p.better != 0 {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, p.better)
	}
	if p.oomFile >= 0 {
		_, _ = unix.Pwrite(p.oomFile, []byte(wantedOOM), 0)
	}
}

// quit makes an ordinary process of this one.
func (p *priority) quit() {
	p.give()
	_ = unix.Munlockall()
}
