package election_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/memory"
	"github.com/leaderrun/leaderrun/boottime"
	"github.com/leaderrun/leaderrun/election"
)

// stage is a store and candidates without any fault but those that a test asks for.
type stage struct {
	t      *testing.T
	store  *memory.Store
	ctx    context.Context
	names  int
	actors []*actor
	close  []func()
}

// onStage runs a scenario with its own time.
func onStage(t *testing.T, scenario func(s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		s := &stage{t: t, store: memory.NewStore(), ctx: ctx}
		// Also after a failure: a bubble may not end before its goroutines.
		defer func() {
			s.store.SetDown(false)
			cancel()
			for _, a := range s.actors {
				a.runner.giveIn()
				<-a.done
			}
			for _, c := range s.close {
				c()
			}
		}()
		scenario(s)
	})
}

// actor is one candidate with a scripted child.
type actor struct {
	cfg     election.Config
	runner  *scripted
	signals chan election.Signal
	host    *simpleHost
	done    chan struct{}
	res     election.Result
	err     error
	took    time.Duration
	seen    int // the starts that running has reported
}

// enter starts a candidate with a TTL of 10 s, whose child runs until it is told to end.
func (s *stage) enter(change func(a *actor)) *actor {
	s.names++
	name := fmt.Sprintf("c%d", s.names)
	n := 0
	a := &actor{
		cfg: election.Config{
			Candidate: backends.Candidate{Key: simKey, ID: name, Host: name},
			Timing:    election.Timing{}.WithDefaults(), ForeignWait: 10 * time.Second,
			Nonce:  func() string { n++; return fmt.Sprintf("%s%015d", name, n) },
			Jitter: func() float64 { return 0.5 }, Log: slog.New(slog.NewTextHandler(s.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
		},
		runner: newScripted(), signals: make(chan election.Signal), host: &simpleHost{}, done: make(chan struct{}),
	}
	if change != nil {
		change(a)
	}
	backend := s.store.Open()
	s.close = append(s.close, func() { backend.Close() })
	s.actors = append(s.actors, a)
	start := time.Now()
	go func() {
		defer close(a.done)
		a.res, a.err = election.Run(s.ctx, a.cfg, election.Ports{
			Backend: backend, Runner: a.runner, Host: a.host, Clock: plainClock{}, Signals: a.signals,
		})
		a.took = time.Since(start)
	}()
	return a
}

func (a *actor) term() { a.signals <- election.Signal{Num: syscall.SIGTERM} }

// wait waits for the candidate's end.
func (a *actor) wait(t *testing.T, want error) {
	t.Helper()
	select {
	case <-a.done:
	case <-time.After(time.Hour):
		t.Fatal("the candidate did not end within an hour")
	}
	if !errors.Is(a.err, want) {
		t.Fatalf("Run = %v, want %v", a.err, want)
	}
}

// running waits until one more child has started, and returns its token.
func (a *actor) running(t *testing.T, within time.Duration) int64 {
	t.Helper()
	seen := a.seen
	for end := time.Now().Add(within); !time.Now().After(end); time.Sleep(time.Millisecond) {
		a.runner.mu.Lock()
		began, token := a.runner.began, a.runner.term.Token
		a.runner.mu.Unlock()
		if began > seen {
			a.seen = began
			return token
		}
	}
	t.Fatalf("no child runs within %v", within)
	return 0
}

// idle checks that no child runs for d.
func (a *actor) idle(t *testing.T, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if a.runner.starts() > 0 {
			t.Fatalf("a child started %v too early", time.Until(end))
		}
	}
}

// scripted is a guard whose child does what a test says.
type scripted struct {
	events chan election.ChildEvent

	mu      sync.Mutex
	term    election.Term
	armed   bool
	alive   bool
	lapsed  bool
	began   int
	signals []syscall.Signal
	timer   *time.Timer
	script  func(start int) (after time.Duration, code int) // nil: runs until killed
	onTERM  time.Duration                                   // ends so long after TERM; negative: never
	stuck   time.Duration                                   // how long it takes to die of KILL
}

func newScripted() *scripted {
	return &scripted{events: make(chan election.ChildEvent, 100), onTERM: -1}
}

func (r *scripted) Events() <-chan election.ChildEvent { return r.events }

func (r *scripted) starts() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.began
}

// giveIn lets the child die at once, now and later.
func (r *scripted) giveIn() {
	r.mu.Lock()
	r.stuck, r.onTERM = 0, 0
	r.mu.Unlock()
	r.Kill(0)
}

func (r *scripted) tell(k election.ChildEventKind, s election.Status) {
	r.events <- election.ChildEvent{Kind: k, Token: r.term.Token, Status: s}
}

func (r *scripted) Arm(t election.Term) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.term, r.armed, r.lapsed = t, true, false
	r.watch()
}

func (r *scripted) watch() {
	if r.timer != nil {
		r.timer.Stop()
	}
	at := r.term.Deadline.Term
	if r.lapsed {
		at = r.term.Deadline.Kill
	}
	r.timer = time.AfterFunc(time.Duration(at-plainClock{}.Now()), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case !r.armed:
		case !r.lapsed:
			r.lapsed = true
			r.tell(election.ChildLapsed, election.Status{})
			if !r.alive {
				r.tell(election.TreeGone, election.Status{})
			}
			r.watch()
		case r.alive:
			r.end(r.stuck, election.Status{Signal: syscall.SIGKILL})
		}
	})
}

func (r *scripted) Begin(token int64, d election.Deadline) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began++
	r.alive, r.term.Deadline = true, d
	r.watch()
	r.tell(election.ChildStarted, election.Status{})
	if r.script != nil {
		after, code := r.script(r.began)
		r.end(after, election.Status{Code: code})
	}
}

// end makes the present child end after d, with the guard locked.
func (r *scripted) end(d time.Duration, s election.Status) {
	run := r.began
	time.AfterFunc(d, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.alive && r.began == run {
			r.alive = false
			r.tell(election.ChildExited, s)
			r.tell(election.TreeGone, election.Status{})
		}
	})
}

func (r *scripted) Extend(token int64, d election.Deadline) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.lapsed {
		r.term.Deadline = d
		r.watch()
	}
}

func (r *scripted) Signal(token int64, sig syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.signals = append(r.signals, sig)
	if sig == syscall.SIGTERM && r.onTERM >= 0 {
		r.end(r.onTERM, election.Status{Code: 3})
	}
}

func (r *scripted) Kill(token int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(r.stuck, election.Status{Signal: syscall.SIGKILL})
}

func (r *scripted) Disarm(token int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed = false
	r.timer.Stop()
}

type simpleHost struct {
	mu     sync.Mutex
	memory election.Memory
	ended  int64
}

func (h *simpleHost) Recall(string) (election.Memory, error) { return h.memory, nil }

func (h *simpleHost) Prepare(_ context.Context, _ string, token int64, ttl time.Duration) error {
	if token <= h.memory.Token {
		return election.ErrStaleToken
	}
	return nil
}

func (h *simpleHost) Ended(_ string, token int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = token
}

type plainClock struct{}

func (plainClock) Now() boottime.Time { return boottime.Time(time.Now().UnixNano()) }

func (plainClock) NewTimer() (election.Timer, error) {
	return &plainTimer{c: make(chan struct{}, 1)}, nil
}

type plainTimer struct {
	c chan struct{}
	t *time.Timer
}

func (t *plainTimer) C() <-chan struct{} { return t.c }

func (t *plainTimer) Set(at boottime.Time) {
	if t.t != nil {
		t.t.Stop()
	}
	if !at.IsZero() {
		t.t = time.AfterFunc(max(at.Sub(plainClock{}.Now()), 0), func() {
			select {
			case t.c <- struct{}{}:
			default:
			}
		})
	}
}

func (t *plainTimer) Close() error {
	t.Set(0)
	return nil
}
