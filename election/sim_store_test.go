package election_test

import (
	"context"
	"fmt"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// faultyBackend is a process's way to the store.
type faultyBackend struct{ p *process }

func (b *faultyBackend) Properties() backends.Properties { return b.p.client.Properties() }
func (b *faultyBackend) Close() error                    { return nil }

func (b *faultyBackend) Enter(ctx context.Context, c backends.Candidate) (backends.Entry, error) {
	e, err := request(ctx, b.p, b.p.gate, "enter", func(ctx context.Context) (backends.Entry, error) { return b.p.client.Enter(ctx, c) })
	if err != nil {
		return nil, err
	}
	return &faultyEntry{e, b.p}, nil
}

// Handback is called by the guard, which is stopped by nobody here.
func (b *faultyBackend) Handback(ctx context.Context, c backends.Crash, r backends.Record) error {
	return write(ctx, b.p, func() {}, "hand back", func(ctx context.Context) error { return b.p.client.Handback(ctx, c, r) })
}

type faultyEntry struct {
	backends.Entry
	p *process
}

func (e *faultyEntry) Observe(on bool) {
	e.p.gate()
	e.Entry.Observe(on)
}

func (e *faultyEntry) View(ctx context.Context) (backends.View, error) {
	return request(ctx, e.p, e.p.gate, "view", e.Entry.View)
}

func (e *faultyEntry) Acquire(ctx context.Context, r backends.Record, seen backends.Version) (backends.Version, error) {
	return request(ctx, e.p, e.p.gate, "acquire", func(ctx context.Context) (backends.Version, error) { return e.Entry.Acquire(ctx, r, seen) })
}

func (e *faultyEntry) Beat(ctx context.Context, r backends.Record, seen backends.Version) (backends.Version, error) {
	return request(ctx, e.p, e.p.gate, "beat", func(ctx context.Context) (backends.Version, error) { return e.Entry.Beat(ctx, r, seen) })
}

func (e *faultyEntry) Evict(ctx context.Context, head backends.Head, r backends.Record, seen backends.Version) (backends.Version, error) {
	return request(ctx, e.p, e.p.gate, "evict", func(ctx context.Context) (backends.Version, error) {
		check := e.p.s.w.patience(head)
		v, err := e.Entry.Evict(ctx, head, r, seen)
		check(err)
		return v, err
	})
}

func (e *faultyEntry) Remove(ctx context.Context, head backends.Head, seen backends.Version) error {
	return write(ctx, e.p, e.p.gate, "remove", func(ctx context.Context) error {
		check := e.p.s.w.patience(head)
		err := e.Entry.Remove(ctx, head, seen)
		check(err)
		return err
	})
}

func (e *faultyEntry) Release(ctx context.Context, r backends.Record, seen backends.Version) error {
	return write(ctx, e.p, e.p.gate, "release", func(ctx context.Context) error { return e.Entry.Release(ctx, r, seen) })
}

func (e *faultyEntry) Keep(ctx context.Context) error {
	if e.p.draw().IntN(10) == 0 && !e.p.s.w.isQuiet() {
		e.p.gate()
		return nil // a stale answer: nothing was kept
	}
	return write(ctx, e.p, e.p.gate, "keep", e.Entry.Keep)
}

// Leave ends the watch in any case; the withdrawal is a request like the others.
func (e *faultyEntry) Leave(ctx context.Context) error {
	e.p.gate()
	if e.p.draw().IntN(20) == 0 && !e.p.s.w.isQuiet() {
		return fmt.Errorf("leave: lost: %w", backends.ErrUnavailable)
	}
	return e.Entry.Leave(ctx)
}

// patience checks what an eviction or a removal does to a head that has not acquired: it may be slow, and nobody may take
// its place before it was first for its own T (ARCHITECTURE.md, rules 8 and 9).
func (w *world) patience(head backends.Head) (after func(error)) {
	var first time.Time
	for _, i := range w.store.Entries(simKey) {
		if i.Name == head.Name {
			first = i.First
		}
	}
	r, _, _ := w.store.Record(simKey)
	return func(err error) {
		if early := time.Since(first); err == nil && !r.Mine(head.Token) && early < head.TTL {
			w.fail(fmt.Sprintf("impatience: the entry of %s was first for %v and is dropped, T %v", head.ID, early, head.TTL))
		}
	}
}

func (w *world) isQuiet() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.quiet
}

func write(ctx context.Context, p *process, gate func(), what string, do func(context.Context) error) error {
	_, err := request(ctx, p, gate, what, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
	return err
}

// request takes do to the store and its answer back. Either may be lost or late, and do may take effect long after the
// caller was told that nothing is known.
func request[R any](ctx context.Context, p *process, gate func(), what string, do func(context.Context) (R, error)) (R, error) {
	gate()
	w, r := p.s.w, p.draw()
	there := time.Duration(1+r.IntN(8)) * time.Millisecond
	back := time.Duration(1+r.IntN(8)) * time.Millisecond
	lostRequest, lostReply := false, false

	w.mu.Lock()
	quiet, outage := w.quiet, time.Now().Before(w.outage)
	w.mu.Unlock()
	if !quiet {
		if r.Float64() < w.kind.lossy {
			switch r.IntN(5) {
			case 0:
				lostRequest = true
			case 1:
				lostReply = true
			case 2:
				there += time.Duration(r.Float64() * float64(p.s.ttl) / 3)
			case 3:
				back += time.Duration(r.Float64() * float64(p.s.ttl) / 3)
			case 4:
				there += time.Duration(r.Float64() * float64(w.kind.late))
			}
		}
		if r.Float64() < w.kind.alone {
			stop := time.Duration(r.Float64() * 0.9 * float64(p.s.ttl))
			p.stopFor(stop)
			time.AfterFunc(there+back, func() { p.s.cutFor(3 * p.s.ttl) })
		}
		if outage || p.s.isCut() {
			if r.IntN(3) == 0 {
				lostReply = true
			} else {
				lostRequest = true
			}
		}
	}
	type answer struct {
		value R
		err   error
	}
	answers := make(chan answer, 1)
	if !lostRequest {
		time.AfterFunc(there, func() {
			v, err := do(context.Background())
			if !lostReply {
				time.AfterFunc(back, func() { answers <- answer{v, err} })
			}
		})
	}
	select {
	case a := <-answers:
		gate()
		return a.value, a.err
	case <-ctx.Done():
		gate()
		var none R
		return none, fmt.Errorf("%s: no answer: %w", what, backends.ErrUnavailable)
	}
}
