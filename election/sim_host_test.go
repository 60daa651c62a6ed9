package election_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/boottime"
	"github.com/leaderrun/leaderrun/election"
)

// slot is one host, on which a candidate is started again whenever it ended.
type slot struct {
	w     *world
	index int
	name  string
	ttl   time.Duration
	rng   *rand.Rand
	host  simHost
	rate  float64
	boot  time.Duration

	mu   sync.Mutex
	proc *process
	over bool
	cut  time.Time
	wake chan struct{}
}

func newSlot(w *world, i int, ttl time.Duration) *slot {
	r := rand.New(rand.NewPCG(w.seed, uint64(10+i)))
	return &slot{
		w: w, index: i, name: fmt.Sprintf("host-%d", i), ttl: ttl, rng: r,
		rate: 1 + (r.Float64()-0.5)/100, boot: time.Duration(1+r.IntN(1000)) * time.Hour, wake: make(chan struct{}, 1),
	}
}

// live runs candidates one after the other.
func (s *slot) live(ctx context.Context) {
	time.Sleep(time.Duration(s.rng.IntN(500)) * time.Millisecond)
	for incarnation := 0; ctx.Err() == nil; incarnation++ {
		p := newProcess(s, incarnation)
		s.mu.Lock()
		if s.over {
			s.mu.Unlock()
			return
		}
		s.proc = p
		s.mu.Unlock()
		p.run()
		rest := time.Duration(s.rng.ExpFloat64() * float64(s.ttl) / 2)
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-time.After(rest):
		}
	}
}

func (s *slot) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

func (s *slot) crash(host bool) {
	if p := s.process(); p != nil {
		p.crash(host)
	}
}

func (s *slot) pause(d time.Duration) {
	if p := s.process(); p != nil {
		p.stopFor(d)
		if d == 0 {
			p.poke()
		}
	}
}

func (s *slot) stop() {
	if p := s.process(); p != nil {
		select {
		case p.signals <- election.Signal{Num: syscall.SIGTERM}:
		default:
		}
	}
}

func (s *slot) cutFor(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = time.Now().Add(d)
}

func (s *slot) isCut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.cut)
}

func (s *slot) revive() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *slot) kill() {
	s.mu.Lock()
	s.over = true
	p := s.proc
	s.mu.Unlock()
	if p != nil {
		p.crash(true)
	}
}

// now is the host's boot clock: it goes at a rate of its own.
func (s *slot) now() boottime.Time {
	return boottime.Time(s.boot + time.Duration(float64(time.Since(s.w.start))*s.rate))
}

// until is how long, in true time, it takes until the host's clock shows t.
func (s *slot) until(t boottime.Time) time.Duration {
	return time.Duration(float64(t.Sub(s.now()))/s.rate) + time.Nanosecond
}

// process is one leaderrun. Everything that it does goes through gate, so it can be stopped anywhere and killed anywhere.
type process struct {
	s       *slot
	name    string
	rng     *rand.Rand
	rngMu   sync.Mutex
	signals chan election.Signal
	cancel  context.CancelFunc
	ctx     context.Context
	guard   *simGuard
	client  backends.Backend

	mu          sync.Mutex
	pausedUntil time.Time
	crashed     bool
	pokes       chan struct{}
}

func newProcess(s *slot, incarnation int) *process {
	p := &process{
		s: s, name: fmt.Sprintf("%s.%d", s.name, incarnation), signals: make(chan election.Signal, 4),
		rng:    rand.New(rand.NewPCG(s.w.seed, uint64(1000+100*s.index+incarnation))),
		client: s.w.store.Open(), pokes: make(chan struct{}),
	}
	s.w.mu.Lock()
	s.w.clients = append(s.w.clients, p.client)
	s.w.mu.Unlock()
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.guard = newSimGuard(p)
	return p
}

func (p *process) run() {
	r := p.rng
	cfg := election.Config{
		Candidate: backends.Candidate{Key: simKey, ID: p.name, Host: p.s.name, PID: 1, Boot: p.s.name},
		Timing:    election.Timing{TTL: p.s.ttl}.WithDefaults(), ForeignWait: p.s.ttl,
		Nonce: func() string { return fmt.Sprintf("%016x", p.draw().Uint64()) }, Jitter: func() float64 { return p.draw().Float64() },
		Log: p.s.w.logger(p.name),
	}
	if p.s.w.kind.tireless || r.IntN(8) == 0 {
		cfg.OnLoss = election.LossCampaign
	}
	switch r.IntN(8) {
	case 1:
		cfg.Wait = time.Duration(r.Float64() * 2 * float64(p.s.ttl))
	case 2:
		cfg.Try = true
	case 3:
		cfg.Restart, cfg.OnLoss = election.RestartAlways, election.LossCampaign
	case 4:
		cfg.Hold = time.Duration(r.Float64() * 2 * float64(p.s.ttl))
	}
	ended := make(chan struct{})
	go func() { // of its own: a crash ends it wherever it stands
		defer close(ended)
		res, err := election.Run(p.ctx, cfg, election.Ports{
			Backend: &faultyBackend{p}, Runner: p.guard, Host: &procHost{p}, Clock: procClock{p}, Signals: p.signals,
		})
		p.s.w.logf("%s: ends: ran %v, %v", p.name, res.Ran, err)
	}()
	<-ended
	p.guard.closed()
	p.cancel()
}

// draw is this process's dice: many goroutines throw them.
func (p *process) draw() *rand.Rand {
	p.rngMu.Lock()
	defer p.rngMu.Unlock()
	return rand.New(rand.NewPCG(p.rng.Uint64(), p.rng.Uint64()))
}

// gate returns when the process may go on. In one that was killed it never does.
func (p *process) gate() {
	if k := p.s.w.kind.sticky; k > 0 {
		if r := p.draw(); r.Float64() < k && !p.s.w.isQuiet() {
			p.stopFor(time.Duration(r.Float64() * 1.5 * float64(p.s.ttl)))
		}
	}
	for {
		p.mu.Lock()
		crashed, until, pokes := p.crashed, p.pausedUntil, p.pokes
		p.mu.Unlock()
		if crashed {
			runtime.Goexit()
		}
		d := time.Until(until)
		if d <= 0 {
			return
		}
		t := time.NewTimer(d)
		select {
		case <-t.C:
		case <-pokes:
		}
		t.Stop()
	}
}

func (p *process) stopFor(d time.Duration) {
	p.mu.Lock()
	p.pausedUntil = time.Now().Add(d)
	p.mu.Unlock()
}

func (p *process) poke() {
	p.mu.Lock()
	close(p.pokes)
	p.pokes = make(chan struct{})
	p.mu.Unlock()
}

// crash kills leaderrun, or the whole host.
func (p *process) crash(host bool) {
	p.mu.Lock()
	was := p.crashed
	p.crashed = true
	p.mu.Unlock()
	if host {
		p.guard.hostCrashed()
	} else if !was {
		p.guard.leaderrunDied()
	}
	p.poke()
	p.cancel()
}

// procClock is the host's clock, as the process reads it.
type procClock struct{ p *process }

func (c procClock) Now() boottime.Time {
	c.p.gate()
	return c.p.s.now()
}

func (c procClock) NewTimer() (election.Timer, error) {
	return &simTimer{p: c.p, c: make(chan struct{}, 1)}, nil
}

type simTimer struct {
	p *process
	c chan struct{}
	t *time.Timer
	a boottime.Time
}

func (t *simTimer) C() <-chan struct{} { return t.c }

func (t *simTimer) Set(at boottime.Time) {
	t.p.gate()
	if at == t.a && !at.IsZero() && t.p.s.now().Before(at) {
		return
	}
	if t.t != nil {
		t.t.Stop()
	}
	if t.a = at; at.IsZero() {
		return
	}
	t.t = time.AfterFunc(max(t.p.s.until(at), 0), func() {
		select {
		case t.c <- struct{}{}:
		default:
		}
	})
}

func (t *simTimer) Close() error {
	if t.t != nil {
		t.t.Stop()
	}
	return nil
}

// simHost is what a host remembers, across processes.
type simHost struct {
	mu     sync.Mutex
	memory election.Memory
}

type procHost struct{ p *process }

func (h *procHost) Recall(string) (election.Memory, error) {
	h.p.gate()
	m := &h.p.s.host
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.memory, nil
}

func (h *procHost) Prepare(_ context.Context, _ string, token int64, ttl time.Duration) error {
	h.p.gate()
	time.Sleep(time.Duration(h.p.draw().IntN(4)) * time.Millisecond)
	h.p.gate()
	m := &h.p.s.host
	m.mu.Lock()
	defer m.mu.Unlock()
	if token <= m.memory.Token {
		return fmt.Errorf("token %d, %w", token, election.ErrStaleToken)
	}
	m.memory = election.Memory{Token: token, TTL: ttl}
	return nil
}

func (h *procHost) Ended(string, int64) { h.p.gate() }
