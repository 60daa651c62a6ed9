package election

import (
	"context"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/boottime"
)

// Run campaigns for cfg.Candidate.Key, runs the child while it leads, and returns when that is over: with a nil error
// and the child's status when the child ended by itself, else with one of this package's errors or the store's. By then
// the tree is dead, and the term was given back if the store could be reached.
//
// A done ctx counts as a TERM. cfg must be valid.
func Run(ctx context.Context, cfg Config, p Ports) (Result, error) {
	timer, err := p.Clock.NewTimer()
	if err != nil {
		return Result{}, err
	}
	defer timer.Close()

	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &campaign{
		cfg: cfg, Ports: p, log: cfg.Log, timer: timer, handlers: table(),
		results: make(chan message), ended: make(chan struct{}), ctx: calls,
	}
	c.cfg.Candidate.TTL = cfg.Timing.TTL
	defer func() {
		close(c.ended)
		cancel()
		c.calls.Wait()
	}()
	if cfg.Wait > 0 {
		c.at(evWait, c.Clock.Now().Add(cfg.Wait))
	}
	c.enter()
	c.loop(ctx)
	return c.result, c.err
}

// campaign is everything that the election knows. It belongs to the goroutine of loop; all others send it messages.
type campaign struct {
	cfg Config
	Ports
	log      *slog.Logger
	handlers *[numEvents][numStates]handler

	ctx     context.Context // ends all calls
	calls   sync.WaitGroup
	results chan message
	ended   chan struct{}
	timer   Timer
	due     [numEvents]boottime.Time // timers that are set

	state state
	gen   int // of the entry; answers of an earlier one are dropped

	result  Result
	err     error
	final   bool           // err and result stand: after this term there is no other
	ending  bool           // give up as soon as it is known what we hold
	stopped syscall.Signal // asked to stop by it

	nonce       string
	enterCancel context.CancelFunc
	enterWait   backoff
	// What outlives an entry: the last readable record, and whether a foreign holder was seen that may just have vanished.
	known   *backends.Record
	foreign bool

	unreachable error // why the store cannot be reached, nil if it could be the last time
	warned      boottime.Time

	term
}

// message is what the loop receives.
type message struct {
	ev  event
	gen int
	err error

	entry   backends.Entry
	memory  Memory
	view    backends.View
	version backends.Version
	beat    int64
	seen    backends.Event
	child   ChildEvent
	signal  Signal
}

func (c *campaign) loop(ctx context.Context) {
	stop := ctx.Done()
	for c.state != done {
		c.setTimer()
		var watch <-chan backends.Event
		if c.entry != nil {
			watch = c.entry.Events()
		}
		select {
		case m := <-c.results:
			if m.gen == c.gen {
				c.handle(m)
			}
		case e := <-watch:
			c.handle(message{ev: watchEvent(e.Kind), seen: e})
		case e := <-c.Runner.Events():
			c.childEvent(e)
		case s := <-c.Signals:
			c.handle(message{ev: evSignal, signal: s})
		case <-stop:
			stop = nil
			c.handle(message{ev: evSignal, signal: Signal{Num: syscall.SIGTERM}})
		case <-c.timer.C():
			c.fire()
		}
	}
}

func (c *campaign) handle(m message) { c.handlers[m.ev][c.state](c, m) }

func watchEvent(k backends.EventKind) event {
	switch k {
	case backends.Seen:
		return evSeen
	case backends.Gone:
		return evGone
	default:
		return evChanged
	}
}

func (c *campaign) childEvent(e ChildEvent) {
	if e.Token != c.token || c.token == 0 {
		return // of an earlier term
	}
	ev := map[ChildEventKind]event{
		ChildStarted: evStarted, ChildFailed: evFailed, ChildExited: evExited, ChildLapsed: evLapsed,
		ChildRefused: evRefused, TreeGone: evTreeGone, GuardDied: evGuardDied,
	}[e.Kind]
	c.handle(message{ev: ev, child: e})
}

// at sets a timer, off stops it.
func (c *campaign) at(ev event, t boottime.Time) { c.due[ev] = t }
func (c *campaign) off(evs ...event) {
	for _, ev := range evs {
		c.due[ev] = 0
	}
}

// after sets a timer to go off in d.
func (c *campaign) after(ev event, d time.Duration) { c.at(ev, c.Clock.Now().Add(d)) }

func (c *campaign) setTimer() {
	var first boottime.Time
	for _, t := range c.due[firstTimer:] {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	c.timer.Set(first)
}

func (c *campaign) fire() {
	now := c.Clock.Now()
	for ev := firstTimer; ev < numEvents; ev++ {
		if t := c.due[ev]; !t.IsZero() && !now.Before(t) {
			c.due[ev] = 0
			c.handle(message{ev: ev})
		}
	}
}

// call does one attempt at something that may block, and sends its answer to the loop.
func (c *campaign) call(ev event, timeout time.Duration, f func(context.Context) message) context.CancelFunc {
	gen := c.gen
	ctx, cancel := context.WithTimeout(c.ctx, timeout)
	c.calls.Go(func() {
		defer cancel()
		m := f(ctx)
		m.ev, m.gen = ev, gen
		select {
		case c.results <- m:
		case <-c.ended:
		}
	})
	return cancel
}

// attempt is the time-out of one attempt at the store.
func (c *campaign) attempt() time.Duration { return c.cfg.Timing.Attempt() }

// finish ends the campaign with err once the entry is withdrawn. Nothing was acquired.
func (c *campaign) finish(err error) {
	c.final, c.err = true, err
	if c.entry == nil {
		c.state = done
		return
	}
	c.leave()
}

// backoff is a delay that doubles from base to limit, jittered down to half of it.
type backoff struct{ tries int }

func (b *backoff) next(base, limit time.Duration, jitter float64) time.Duration {
	d := min(base<<min(b.tries, 20), limit)
	b.tries++
	return d/2 + time.Duration(jitter*float64(d/2))
}

func (b *backoff) reset() { b.tries = 0 }
