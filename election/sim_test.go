package election_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/memory"
	"github.com/leaderrun/leaderrun/election"
)

var (
	simN     = flag.Int("n", 0, "schedules to simulate; 0: what the normal test run does")
	simSeed  = flag.Uint64("seed", 0, "simulate this schedule alone, with its trace")
	simFirst = flag.Uint64("first", 1, "seed of the first schedule")
)

// TestSimulation runs the real election against a store, guards and hosts that do their worst, many seeded schedules of
// it, and checks that no two trees live at one instant, that tokens rise, and that somebody leads again in the end.
//
//	go test ./election -run TestSimulation -args -n 1000000
//	go test ./election -run TestSimulation -args -seed 4711
func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		w := simulate(t, *simSeed, os.Stderr)
		if w.failure != "" {
			t.Fatalf("seed %d: %s", *simSeed, w.failure)
		}
		return
	}
	n := *simN
	if n == 0 {
		n = defaultSchedules
	}
	seeds := make(chan uint64)
	var (
		workers    sync.WaitGroup
		mu         sync.Mutex
		terms      int
		failedSeed uint64
		failure    string
	)
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for seed := range seeds {
				w := simulate(t, seed, nil)
				mu.Lock()
				terms += w.terms
				if w.failure != "" && (failure == "" || seed < failedSeed) {
					failedSeed, failure = seed, w.failure
				}
				mu.Unlock()
			}
		})
	}
	done := 0
	for seed := *simFirst; done < n; seed++ {
		mu.Lock()
		stop := failure != ""
		mu.Unlock()
		if stop {
			break
		}
		seeds <- seed
		done++
	}
	close(seeds)
	workers.Wait()
	t.Logf("%d schedules, %d terms", done, terms)
	if failure != "" {
		var trace strings.Builder
		simulate(t, failedSeed, &trace)
		lines := strings.Split(trace.String(), "\n")
		if len(lines) > 70 {
			lines = lines[len(lines)-70:]
		}
		t.Fatalf("seed %d after %d schedules: %s\n%s", failedSeed, done, failure, strings.Join(lines, "\n"))
	}
	if terms < n {
		t.Fatalf("only %d terms in %d schedules: the simulation does not simulate", terms, n)
	}
}

const simKey = "/sim/key"

// world is one schedule.
type world struct {
	seed  uint64
	rng   *rand.Rand // of the goroutine that deals out faults
	start time.Time
	trace io.Writer
	kind  worldKind
	store *memory.Store
	slots []*slot
	quiet bool // faults have stopped; read by many, written while all others are blocked

	mu      sync.Mutex
	last    map[memory.Watch]time.Time // of each stream: its notifications stay in order
	lag     *rand.Rand
	clients []backends.Backend
	outage  time.Time // until then the store answers nobody
	alive   map[int64]string
	token   int64 // highest that started a child
	terms   int
	failure string
}

// worldKind is what the dice decided for a whole schedule.
type worldKind struct {
	lossy     float64 // share of requests with a fault
	late      time.Duration
	lagging   float64
	missing   float64
	operators bool // everything is deleted under a living leader; all hosts know the key, and have one TTL
	foreign   bool
	expires   bool // the store drops entries at will
	tireless  bool // all campaign again after a loss
	calm      float64
	sticky    float64 // chance to be stopped at any one step
	alone     float64 // chance to be stopped while an answer is on its way, and cut off after it
}

func simulate(t *testing.T, seed uint64, trace io.Writer) *world {
	w := &world{seed: seed, trace: trace}
	synctest.Test(t, func(t *testing.T) { w.run() })
	return w
}

func (w *world) run() {
	w.rng = rand.New(rand.NewPCG(w.seed, 1))
	w.lag = rand.New(rand.NewPCG(w.seed, 2))
	w.start = time.Now()
	w.last, w.alive = make(map[memory.Watch]time.Time), make(map[int64]string)
	w.setUp()

	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, s := range w.slots {
		all.Go(func() { s.live(ctx) })
	}
	longest := w.longestTTL()
	end := time.Now().Add(time.Duration(2+w.rng.IntN(5)) * longest)
	for time.Now().Before(end) && !w.failed() {
		time.Sleep(time.Duration(w.rng.ExpFloat64() * w.kind.calm * float64(longest)))
		w.fault()
	}
	w.recover()
	cancel()
	for _, s := range w.slots {
		s.kill()
	}
	all.Wait()
	time.Sleep(10 * time.Minute) // requests that are still on their way
	for _, c := range w.clients {
		c.Close()
	}
}

func (w *world) setUp() {
	r := w.rng
	w.kind = worldKind{
		lossy: []float64{0, 0.02, 0.1, 0.3}[r.IntN(4)], late: []time.Duration{0, 3 * time.Second, 40 * time.Second}[r.IntN(3)],
		lagging: []float64{0, 0.1, 0.5}[r.IntN(3)], missing: []float64{0, 0.05}[r.IntN(2)],
		operators: r.IntN(6) == 0, foreign: r.IntN(6) == 0, expires: r.IntN(3) == 0, tireless: r.IntN(3) == 0,
		calm: []float64{0.2, 0.5, 1.2}[r.IntN(3)], sticky: []float64{0, 0.002, 0.01}[r.IntN(3)], alone: []float64{0, 0.01, 0.05}[r.IntN(3)],
	}
	w.store = memory.NewStore()
	switch r.IntN(3) {
	case 0: // keeps dead entries for ever
	case 1:
		w.store.Lease = func(ttl time.Duration) time.Duration { return 2 * ttl }
	case 2: // too early
		w.store.Lease = func(ttl time.Duration) time.Duration { return ttl * 2 / 3 }
	}
	w.store.Deliver = w.deliver
	n := 2 + r.IntN(4)
	ttls := []time.Duration{time.Second, 1500 * time.Millisecond, 2 * time.Second, 3 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second}
	one := ttls[r.IntN(4)]
	spread := r.IntN(2) == 0
	if w.kind.operators {
		spread = false
		w.store.SetRecord(simKey, nil) // a revision, so that tokens are above what the hosts remember
	}
	for i := range n {
		ttl := one
		if spread {
			ttl = ttls[r.IntN(len(ttls))]
		}
		s := newSlot(w, i, ttl)
		if w.kind.operators {
			s.host.memory = election.Memory{Token: 1, TTL: ttl}
		}
		w.slots = append(w.slots, s)
	}
}

func (w *world) longestTTL() time.Duration {
	var d time.Duration
	for _, s := range w.slots {
		d = max(d, s.ttl)
	}
	return d
}

// fault does one thing to the world.
func (w *world) fault() {
	r := w.rng
	s := w.slots[r.IntN(len(w.slots))]
	if entries := w.store.Entries(simKey); len(entries) > 0 && r.IntN(2) == 0 {
		for _, head := range w.slots { // half of all faults hit whoever leads, or is about to
			if head.name == entries[0].Candidate.Host {
				s = head
			}
		}
	}
	within := func(d time.Duration) time.Duration { return time.Duration(r.Float64() * float64(d)) }
	switch p := r.IntN(20); {
	case p < 4:
		w.logf("crash of leaderrun %s", s.name)
		s.crash(false)
	case p < 6:
		w.logf("crash of host %s", s.name)
		s.crash(true)
	case p < 10:
		d := within(3 * s.ttl)
		w.logf("pause of leaderrun %s for %v", s.name, d)
		s.pause(d)
	case p < 12:
		d := within(2 * s.ttl)
		w.logf("store outage of %v", d)
		w.mu.Lock()
		w.outage = time.Now().Add(d)
		w.mu.Unlock()
	case p < 14:
		w.logf("stop of %s", s.name)
		s.stop()
	case p < 16:
		d := within(2 * s.ttl)
		w.logf("cut of %s for %v", s.name, d)
		s.cutFor(d)
	case p < 18 && w.kind.expires:
		if entries := w.store.Entries(simKey); len(entries) > 0 {
			e := entries[r.IntN(min(2, len(entries)))]
			w.logf("store drops entry %d", e.Token)
			w.store.Expire(e.Token)
		}
	case p == 18 && w.kind.operators:
		w.logf("operator deletes everything")
		w.store.DropAll(simKey)
	case p == 19 && w.kind.foreign:
		w.logf("a foreign holder comes")
		w.store.AddForeign(simKey)
		time.AfterFunc(within(2*s.ttl), func() {
			w.logf("the foreign holder goes")
			w.store.RemoveForeign(simKey)
		})
	}
}

// recover ends all faults and waits until somebody starts a child, or leads.
func (w *world) recover() {
	w.logf("faults end")
	w.mu.Lock()
	w.quiet, w.outage = true, time.Time{}
	terms, leading, calm := w.terms, w.token, time.Now()
	w.mu.Unlock()
	for _, s := range w.slots {
		s.pause(0)
		s.cutFor(0)
		s.revive()
	}
	w.store.RemoveForeign(simKey)
	entries := len(w.store.Entries(simKey))
	limit := time.Duration(entries+4)*w.longestTTL()*2 + 30*time.Second
	for deadline := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		w.mu.Lock()
		again := w.terms > terms
		for token := range w.alive {
			// One that goes on leading is as good, once its lease would have run out without renewals.
			again = again || token == leading && time.Since(calm) > 2*w.longestTTL()
		}
		w.mu.Unlock()
		switch {
		case again || w.failed():
			return
		case time.Now().After(deadline):
			w.fail(fmt.Sprintf("stuck: nobody started a child within %v of the last fault", limit))
			return
		}
	}
}

// began and ended are what the guards report. They are the oracle.
func (w *world) began(who string, token int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.terms++
	for other, name := range w.alive {
		w.failLocked(fmt.Sprintf("overlap: %s starts term %d while the tree of %s, term %d, is alive", who, token, name, other))
	}
	if token <= w.token {
		w.failLocked(fmt.Sprintf("token: %s starts term %d after term %d", who, token, w.token))
	}
	w.token = token
	w.alive[token] = who
	w.logLocked("%s: child of term %d starts", who, token)
}

// beganAgain is a restart within a term.
func (w *world) beganAgain(who string, token int64) {
	w.mu.Lock()
	w.token = 0
	w.mu.Unlock()
	w.began(who, token)
}

func (w *world) died(who string, token int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.alive, token)
	w.logLocked("%s: tree of term %d is gone", who, token)
}

// deliver takes a notification of the store's watch to its receiver: late, in order, or not at all, after which the
// driver finds out by itself that it may have missed something.
func (w *world) deliver(watch memory.Watch, send func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := time.Duration(w.lag.IntN(15)) * time.Millisecond
	if !w.quiet {
		if w.lag.Float64() < w.kind.lagging {
			d += time.Duration(w.lag.ExpFloat64() * float64(time.Second))
		}
		if w.lag.Float64() < w.kind.missing {
			d += time.Duration(w.lag.IntN(10)) * time.Second
		}
	}
	at := time.Now().Add(d)
	if last := w.last[watch]; at.Before(last) {
		at = last
	}
	w.last[watch] = at
	time.AfterFunc(time.Until(at), send)
}

func (w *world) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure != ""
}

func (w *world) fail(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(what)
}

func (w *world) failLocked(what string) {
	if w.failure == "" {
		w.failure = what
	}
	w.logLocked("FAILURE %s", what)
}

func (w *world) logf(format string, args ...any) {
	if w.trace == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logLocked(format, args...)
}

func (w *world) logLocked(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%10.4f "+format+"\n", append([]any{time.Since(w.start).Seconds()}, args...)...)
	}
}

// logger writes a candidate's own log into the trace.
func (w *world) logger(who string) *slog.Logger {
	if w.trace == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		_, line, _ := strings.Cut(string(p), " level=")
		if strings.Contains(line, "msg=renewed") {
			return len(p), nil
		}
		w.logf("%s: %s", who, strings.TrimSpace(line))
		return len(p), nil
	}), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

var _ backends.Backend = (*faultyBackend)(nil)
