package backends

import "sync"

// Feed carries a driver's events to the election. Put never blocks and nothing that matters is lost: of the records
// only the newest is kept, a Changed says all that many would say, and Gone is last. The zero Feed is not usable.
type Feed struct {
	c chan Event

	mu      sync.Mutex
	pending []Event // in order, at most one of each kind
	idle    chan struct{}
	stop    chan struct{}
	done    sync.WaitGroup
}

// NewFeed starts a feed. Close ends it.
func NewFeed() *Feed {
	f := &Feed{c: make(chan Event), idle: make(chan struct{}, 1), stop: make(chan struct{})}
	f.done.Go(f.run)
	return f
}

// C is where the events come out. It is never closed.
func (f *Feed) C() <-chan Event { return f.c }

// Put hands in an event. It replaces one of the same kind that nobody has received yet. Safe for concurrent use, also
// after Close, when it does nothing.
func (f *Feed) Put(e Event) {
	f.mu.Lock()
	for i := range f.pending {
		if f.pending[i].Kind == e.Kind {
			f.pending = append(f.pending[:i], f.pending[i+1:]...)
			break
		}
	}
	f.pending = append(f.pending, e)
	f.mu.Unlock()
	select {
	case f.idle <- struct{}{}:
	default:
	}
}

// Close ends the feed and waits for its goroutine. Idempotent.
func (f *Feed) Close() {
	f.mu.Lock()
	select {
	case <-f.stop:
	default:
		close(f.stop)
	}
	f.mu.Unlock()
	f.done.Wait()
}

func (f *Feed) run() {
	for {
		f.mu.Lock()
		var next Event
		some := len(f.pending) > 0
		if some {
			next = f.pending[0]
			f.pending = f.pending[1:]
		}
		f.mu.Unlock()
		if !some {
			select {
			case <-f.idle:
				continue
			case <-f.stop:
				return
			}
		}
		select {
		case f.c <- next:
		case <-f.stop:
			return
		}
	}
}
