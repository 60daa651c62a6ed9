package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

type client struct {
	store  *Store
	denied bool
	open   []*entry // guarded by store.mu
	closed bool     // guarded by store.mu
}

// ticket is what Crash carries: enough to find the entry from another client.
type ticket struct {
	Key   string `json:"key"`
	Token int64  `json:"token"`
}

func (c *client) Properties() backends.Properties { return backends.Properties{Evicts: true} }

func (c *client) Enter(ctx context.Context, who backends.Candidate) (backends.Entry, error) {
	if err := backends.CheckKey(who.Key); err != nil {
		return nil, err
	}
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := c.begin(ctx, "enter"); err != nil {
		return nil, err
	}
	q := s.queue(who.Key)
	for _, sl := range q.slots {
		if sl.foreign || sl.candidate.Nonce != who.Nonce {
			continue
		}
		for _, h := range sl.handles {
			if h.client == c {
				return h, nil
			}
		}
		return c.attach(q, sl), nil
	}
	sl := s.enqueue(q)
	sl.candidate = who
	if s.Lease != nil {
		sl.expiry = time.AfterFunc(s.Lease(who.TTL), func() { s.Expire(sl.token) })
	}
	return c.attach(q, sl), nil
}

func (c *client) Handback(ctx context.Context, crash backends.Crash, r backends.Record) error {
	var t ticket
	if err := json.Unmarshal(crash.Data, &t); err != nil {
		return fmt.Errorf("memory: hand back: %w", err)
	}
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := c.begin(ctx, "hand back"); err != nil {
		return err
	}
	q := s.queue(t.Key)
	for _, sl := range q.slots {
		if sl.token != t.Token {
			continue
		}
		if now := q.cell.record; now.Mine(t.Token) && r.Token == t.Token {
			if r.Extra == nil {
				r.Extra = now.Extra
			}
			s.write(q, r)
		}
		s.drop(q, sl, nil)
		return nil
	}
	return nil
}

// Close forgets the client's entries without withdrawing them.
func (c *client) Close() error {
	c.store.mu.Lock()
	open := c.open
	c.open, c.closed = nil, true
	for _, h := range open {
		h.detach()
	}
	c.store.mu.Unlock()
	for _, h := range open {
		h.feed.Close()
	}
	return nil
}

// begin opens an operation, with the store locked.
func (c *client) begin(ctx context.Context, what string) error {
	c.store.requests++
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memory: %s: %w: %w", what, backends.ErrUnavailable, err)
	}
	if c.denied {
		return fmt.Errorf("memory: %s: %w", what, backends.ErrDenied)
	}
	if c.store.down {
		return fmt.Errorf("memory: %s: the store is down: %w", what, backends.ErrUnavailable)
	}
	if c.closed {
		return fmt.Errorf("memory: %s: the client is closed: %w", what, backends.ErrUnavailable)
	}
	return nil
}

func (c *client) attach(q *queue, sl *slot) *entry {
	h := &entry{client: c, queue: q, slot: sl, feed: backends.NewFeed()}
	sl.handles = append(sl.handles, h)
	c.open = append(c.open, h)
	return h
}
