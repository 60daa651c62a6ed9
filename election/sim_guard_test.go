package election_test

import (
	"context"
	"sync"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/election"
)

// simGuard is a guard and its child. It acts on the host's clock, whatever happens to leaderrun, until the host crashes.
type simGuard struct {
	p      *process
	events chan election.ChildEvent

	mu       sync.Mutex
	term     election.Term
	armed    bool
	begun    bool
	running  bool // the tree is alive
	dying    bool
	lapsed   bool
	handing  bool
	down     bool // the host crashed
	orphaned bool // leaderrun died
	run      int  // of the child, to tell an old timer
	timer    *time.Timer
}

func newSimGuard(p *process) *simGuard {
	return &simGuard{p: p, events: make(chan election.ChildEvent, 1000)}
}

func (g *simGuard) Events() <-chan election.ChildEvent { return g.events }

// tell reports to leaderrun, with the guard locked.
func (g *simGuard) tell(kind election.ChildEventKind, status election.Status) {
	g.events <- election.ChildEvent{Kind: kind, Token: g.term.Token, PID: 2, Status: status}
}

func (g *simGuard) Arm(t election.Term) {
	g.p.gate()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.term, g.armed, g.begun, g.lapsed, g.handing = t, true, false, false, false
	g.watch()
}

func (g *simGuard) Begin(token int64, d election.Deadline) {
	g.p.gate()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.armed || token != g.term.Token || g.down {
		return
	}
	if g.lapsed || !g.p.s.now().Before(d.Term) {
		g.tell(election.ChildRefused, election.Status{})
		g.lapse()
		return
	}
	g.term.Deadline = d
	if g.begun {
		g.p.s.w.beganAgain(g.p.name, token)
	} else {
		g.p.s.w.began(g.p.name, token)
	}
	g.begun, g.running, g.dying = true, true, false
	g.run++
	g.tell(election.ChildStarted, election.Status{})
	g.watch()
	r := g.p.draw()
	if r.IntN(3) > 0 {
		run := g.run
		time.AfterFunc(time.Duration(r.ExpFloat64()*float64(g.p.s.ttl)), func() { g.exit(run, election.Status{Code: r.IntN(2)}) })
	}
}

func (g *simGuard) Extend(token int64, d election.Deadline) {
	g.p.gate()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.armed || token != g.term.Token || g.down {
		return
	}
	if g.lapsed || !g.p.s.now().Before(g.term.Deadline.Term) {
		g.tell(election.ChildRefused, election.Status{})
		g.lapse()
		return
	}
	g.term.Deadline = d
	g.watch()
}

func (g *simGuard) Signal(token int64, sig syscall.Signal) {
	g.p.gate()
	g.mu.Lock()
	defer g.mu.Unlock()
	if token != g.term.Token || !g.running {
		return
	}
	r, run := g.p.draw(), g.run
	if r.IntN(2) == 0 {
		time.AfterFunc(time.Duration(r.ExpFloat64()*float64(g.p.s.ttl)), func() { g.exit(run, election.Status{Signal: sig}) })
	}
}

func (g *simGuard) Kill(token int64) {
	g.p.gate()
	g.mu.Lock()
	defer g.mu.Unlock()
	if token == g.term.Token && g.running {
		g.kill(time.Duration(g.p.draw().IntN(20)) * time.Millisecond)
	}
}

func (g *simGuard) Disarm(token int64) {
	g.p.gate()
	g.mu.Lock()
	defer g.mu.Unlock()
	if token == g.term.Token && !g.handing {
		g.armed = false
		g.timer.Stop()
	}
}

// watch sets the guard's timer for what the deadline asks next, with the guard locked.
func (g *simGuard) watch() {
	if g.timer != nil {
		g.timer.Stop()
	}
	at := g.term.Deadline.Term
	switch {
	case g.lapsed && g.running:
		at = g.term.Deadline.Kill
	case g.lapsed:
		at = g.term.Deadline.End
	}
	g.timer = time.AfterFunc(max(g.p.s.until(at), 0), func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.deadline()
	})
}

func (g *simGuard) deadline() {
	if !g.armed || g.down {
		return
	}
	now, d := g.p.s.now(), g.term.Deadline
	switch {
	case !g.lapsed && !now.Before(d.Term):
		g.tell(election.ChildLapsed, election.Status{})
		g.lapse()
	case g.lapsed && g.running && !now.Before(d.Kill):
		// At the latest the kernel's timer kills, half-way between KILL and E.
		g.kill(time.Duration(g.p.draw().Float64() * float64(d.End.Sub(d.Kill)) / 2))
	case g.lapsed && !g.running && !now.Before(d.End):
		g.handBack() // leaderrun is stopped
	default:
		g.watch()
	}
}

// lapse: TERM goes out. What was never started is gone.
func (g *simGuard) lapse() {
	if g.lapsed {
		return
	}
	g.lapsed = true
	if !g.running {
		g.tell(election.TreeGone, election.Status{})
	} else if r, run := g.p.draw(), g.run; r.IntN(2) == 0 {
		time.AfterFunc(time.Duration(r.Float64()*float64(g.p.s.ttl)/10), func() { g.exit(run, election.Status{Signal: syscall.SIGTERM}) })
	}
	g.watch()
}

// exit is the direct child's end; what it left behind is killed.
func (g *simGuard) exit(run int, status election.Status) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if run == g.run && g.running && !g.dying && !g.down {
		g.tell(election.ChildExited, status)
		g.kill(time.Duration(g.p.draw().IntN(10)) * time.Millisecond)
	}
}

// kill kills the tree, which is gone after d, with the guard locked.
func (g *simGuard) kill(d time.Duration) {
	if g.dying {
		return
	}
	g.dying = true
	time.AfterFunc(d, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if !g.running || g.down {
			return
		}
		g.running = false
		g.p.s.w.died(g.p.name, g.term.Token)
		g.tell(election.TreeGone, election.Status{})
		if g.orphaned {
			g.handBack()
		} else {
			g.watch()
		}
	})
}

// leaderrunDied: the socket closed.
func (g *simGuard) leaderrunDied() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.orphaned = true
	switch {
	case !g.armed || g.down:
	case g.running:
		g.kill(time.Duration(g.p.draw().IntN(5)) * time.Millisecond)
	default:
		g.handBack()
	}
}

// handBack gives the term back, by a connection of the guard's own.
func (g *simGuard) handBack() {
	if g.handing {
		return
	}
	g.handing = true
	term, begun, p := g.term, g.begun, g.p
	go func() {
		for range 3 {
			time.Sleep(time.Duration(1+p.draw().IntN(10)) * time.Millisecond)
			g.mu.Lock()
			down := g.down
			g.mu.Unlock()
			if down {
				return
			}
			ctx, cancel := context.WithTimeout(context.Background(), p.s.ttl/5)
			err := (&faultyBackend{p}).Handback(ctx, term.Crash, term.Final(begun, p.s.now()))
			cancel()
			p.s.w.logf("%s: guard hands term %d back: %v", p.name, term.Token, err)
			if err == nil {
				break
			}
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.tell(election.GuardDied, election.Status{})
	}()
}

// hostCrashed: everything on it is dead at once.
func (g *simGuard) hostCrashed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down = true
	if g.running {
		g.running = false
		g.p.s.w.died(g.p.name, g.term.Token)
	}
	if g.timer != nil {
		g.timer.Stop()
	}
}

// closed: leaderrun has ended. If it ended well there is nothing left.
func (g *simGuard) closed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running && !g.orphaned {
		g.p.s.w.fail(g.p.name + " ended while its child runs")
	}
}

var _ election.Runner = (*simGuard)(nil)
