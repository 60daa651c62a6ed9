package exec

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The names under which guard and sentinel appear in ps. Nothing in them, nor in their arguments, matches a
// "pkill leaderrun" or "pgrep -f 'leaderrun --key …'", so that it takes leaderrun alone. ARCHITECTURE.md G1.
const (
	guardName    = "lr-guard"
	sentinelName = "lr-sentinel"
)

// markName is the variable that marks the processes of a term. Nothing of ours carries one that was inherited from an
// outer leaderrun, or a sweep would kill the guard. ARCHITECTURE.md G19.
const markName = "LEADERRUN_TERM"

// self is what there is once per process by nature: its children, which anybody's wait4 could take, and what the
// interception left. It is the exception to "no package-level variables", as intercept is to "no init".
var self process

type process struct {
	starting sync.Mutex // one Start at a time

	mu      sync.Mutex
	guard   *Guard       // the last one
	pid     int          // its process, while that is not reaped
	helpers map[int]bool // children that are not of the tree: the sentinel, and what we had before exec

	crashed *CrashReport // set in init only
}

// help notes a child that a kill loop must not touch.
func (p *process) help(pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addHelper(pid)
}

// addHelper is help for who holds the lock.
func (p *process) addHelper(pid int) {
	if p.helpers == nil {
		p.helpers = map[int]bool{}
	}
	p.helpers[pid] = true
}

// forget drops a child that was reaped: its number may come back as something else.
func (p *process) forget(pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.helpers, pid)
	if pid == p.pid {
		p.pid = 0
	}
}

// ours lists all processes of our own: this one, its guard, and the helpers.
func (p *process) ours() map[int]bool {
	m := p.helping()
	p.mu.Lock()
	defer p.mu.Unlock()
	m[os.Getpid()] = true
	m[p.pid] = true
	return m
}

// helping lists the helpers.
func (p *process) helping() map[int]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := make(map[int]bool, len(p.helpers))
	for pid := range p.helpers {
		m[pid] = true
	}
	return m
}

// helperEnv is our environment for guard and sentinel.
func helperEnv() []string {
	var env []string
	for _, entry := range os.Environ() {
		if len(entry) > len(markName) && entry[:len(markName)+1] == markName+"=" {
			continue
		}
		env = append(env, entry)
	}
	return env
}

// inheritable lets a descriptor go through the next exec. forkHelper calls it with self.mu held, so that guard and
// sentinel do not get each other's.
func inheritable(fd int, yes bool) error {
	flags := unix.FD_CLOEXEC
	if yes {
		flags = 0
	}
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, flags)
	return err
}

// vacate makes sure that no other Guard reaps this process's children. One that is dead, or busy with nothing but its
// own end, is ended.
func (p *process) vacate() error {
	p.mu.Lock()
	old := p.guard
	p.mu.Unlock()
	if old == nil {
		return nil
	}
	if old.Alive() {
		return errors.New("exec: this process has a guard already")
	}
	old.end()
	select {
	case <-old.done:
		return nil
	case <-time.After(time.Second):
		return errors.New("exec: the processes of the guard before are still being killed")
	}
}

// use notes the Guard in use.
func (p *process) use(g *Guard) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.guard, p.pid = g, g.pid
}
