package exec

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/boottime"
)

// handle is what the guard does for a message of leaderrun.
func (k *keeper) handle(m message, files []int) {
	if m.verb != doArm {
		closeAll(files)
	}
	switch m.verb {
	case doPrepare:
		k.command = m
		ignoreForChild(m.ignore)
		return
	case doArm:
		k.arm(m, files)
		return
	}
	if k.phase == idle || m.token != k.term.token {
		if m.verb == doBegin || m.verb == doExtend {
			k.refuse(m, "the guard does not hold this term")
		}
		return
	}
	switch m.verb {
	case doBegin:
		k.begin(m)
	case doExtend:
		if k.lapse || k.forget {
			k.refuse(m, "the term had lapsed")
			return
		}
		k.term.deadline = m.deadline
		k.tell(message{verb: didAck, token: m.token, deadline: m.deadline})
	case doSignal:
		if k.child > 0 {
			_ = unix.Kill(k.child, unix.Signal(m.number)) // not reaped yet, so the number is still the child's
		}
	case doKill:
		switch k.phase {
		case armed, over:
			k.tell(message{verb: didGo, token: m.token})
		case running, lapsed:
			k.kill()
		}
	case doDisarm:
		switch k.phase {
		case armed, over:
			k.drop()
		case running, lapsed:
			k.forget = true
			k.kill()
		case killing:
			k.forget = true
		}
	}
}

// refuse answers a Begin, an Extend or an Arm. Gone follows it: at once when there is no process.
func (k *keeper) refuse(m message, why string) {
	k.tell(message{verb: didRefuse, token: m.token, deadline: m.deadline, text: why})
	switch k.phase {
	case idle, armed, over:
		k.tell(message{verb: didGo, token: m.token})
	}
}

func (k *keeper) arm(m message, files []int) {
	if k.phase != idle {
		closeAll(files)
		k.refuse(m, "the guard holds another term")
		return
	}
	k.term, k.files = m, files
	k.phase = armed
	k.tell(message{verb: didAck, token: m.token, deadline: m.deadline})
}

// drop forgets the term: leaderrun has given it back itself.
func (k *keeper) drop() {
	closeAll(k.files)
	k.term, k.files = message{}, nil
	k.begun, k.lapse, k.forget = false, false, false
	k.phase = idle
}

// begin starts the child, unless it comes too late: leaderrun may have been stopped since it decided. ARCHITECTURE.md
// rule 1.
func (k *keeper) begin(m message) {
	switch {
	case k.alone:
		return
	case k.phase != armed:
		k.refuse(m, "the term has processes, or has lapsed")
		return
	case k.command.text == "":
		k.refuse(m, "no command was prepared")
		return
	case !boottime.Now().Before(m.deadline.Term):
		k.refuse(m, "too late to start")
		return
	}
	k.term.deadline = m.deadline
	k.begun = true
	k.phase = running
	k.mortality() // a child must never run without the timers behind it
	pid, err := k.start(m.env)
	if err != nil {
		var errno syscall.Errno
		errors.As(err, &errno)
		k.tell(message{verb: didNotStart, token: m.token, number: int64(errno)})
		k.kill() // nothing is there; the proof of it is the same
		return
	}
	k.child = pid
	k.tell(message{verb: didStart, token: m.token, number: int64(pid)})
}

// ended notes a process that was reaped.
func (k *keeper) ended(pid int, status unix.WaitStatus) {
	if pid != k.child {
		return // an orphan of the tree
	}
	k.tree.lost()
	k.child = 0
	if k.pidfd >= 0 {
		unix.Close(k.pidfd)
		k.pidfd = -1
	}
	k.tell(message{verb: didExit, token: k.term.token, number: int64(pid), status: uint32(status)})
	if k.phase == running {
		k.kill()
	}
}

// clock does what is due. More than one thing may be: we may have been stopped, or the machine suspended.
func (k *keeper) clock() {
	if k.phase == idle || k.phase == leaving || k.alone {
		return
	}
	now, d := boottime.Now(), k.term.deadline
	if !k.lapse && !now.Before(d.Term) {
		k.lapse = true
		k.tell(message{verb: didLapse, token: k.term.token})
		switch k.phase {
		case armed:
			k.tell(message{verb: didGo, token: k.term.token})
			k.phase = over
		case running:
			k.phase = lapsed
			k.tree.begin()
			k.tree.each(func(pid int) { _ = unix.Kill(pid, unix.SIGTERM) })
			k.tree.each(func(pid int) { _ = unix.Kill(pid, unix.SIGCONT) }) // a stopped process cannot act on it
		}
	}
	if k.phase == lapsed && !now.Before(d.Kill) {
		k.kill()
	}
	if k.phase == over && !now.Before(d.End) {
		// leaderrun has had Gone since before End and has not disarmed the term: it is stopped, or hangs.
		k.tell(message{verb: didLeave, token: k.term.token})
		k.leave(true)
	}
}

// kill starts the kill loop.
func (k *keeper) kill() {
	k.phase = killing
	k.tree.begin()
}

// clear is one round of getting rid of the tree. Nothing but an empty one ends it.
func (k *keeper) clear(none bool) {
	switch {
	case k.phase == lapsed && !none:
		return // the grace
	case k.phase == lapsed:
		k.kill()
	}
	if k.tree.step(none) {
		k.empty()
	}
}

// empty is the end of the tree.
func (k *keeper) empty() {
	k.tell(message{verb: didGo, token: k.term.token})
	switch {
	case k.forget && k.alone:
		k.leave(false)
	case k.forget:
		k.drop()
	case k.alone:
		k.leave(true)
	case k.lapse:
		k.phase = over
		k.clock() // End may have passed
	default:
		k.phase = armed
	}
}

// orphaned is the death of leaderrun.
func (k *keeper) orphaned() {
	switch k.phase {
	case idle:
		k.leave(false)
	case armed, over:
		k.leave(true)
	case running, lapsed:
		k.kill()
	}
}

func (k *keeper) leave(report bool) {
	k.phase = leaving
	k.report = report
}
