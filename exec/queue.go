package exec

import "sync"

// queue is a channel without a bound: push never blocks and nothing is dropped.
type queue[T any] struct {
	c    chan T
	more chan struct{}
	stop chan struct{}
	done sync.WaitGroup

	mu      sync.Mutex
	pending []T
}

func newQueue[T any]() *queue[T] {
	q := &queue[T]{c: make(chan T), more: make(chan struct{}, 1), stop: make(chan struct{})}
	q.done.Go(q.run)
	return q
}

// push adds v. Safe for concurrent use.
func (q *queue[T]) push(v T) {
	q.mu.Lock()
	q.pending = append(q.pending, v)
	q.mu.Unlock()
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// close ends the queue, closes its channel, and returns what nobody has received. Call it once.
func (q *queue[T]) close() []T {
	close(q.stop)
	q.done.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pending
}

func (q *queue[T]) run() {
	defer close(q.c)
	for {
		q.mu.Lock()
		batch := q.pending
		q.pending = nil
		q.mu.Unlock()
		for i, v := range batch {
			select {
			case q.c <- v:
			case <-q.stop:
				q.mu.Lock()
				q.pending = append(batch[i:], q.pending...)
				q.mu.Unlock()
				return
			}
		}
		if len(batch) > 0 {
			continue
		}
		select {
		case <-q.more:
		case <-q.stop:
			return
		}
	}
}
