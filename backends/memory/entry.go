package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// entry is one client's hold on a slot.
type entry struct {
	client *client
	queue  *queue
	slot   *slot
	feed   *backends.Feed

	observing  bool          // guarded by the store's lock
	left       bool          // guarded by the store's lock
	generation atomic.Uint64 // of the record's watch: one more with each Observe
}

func (h *entry) Store() string                 { return h.client.store.Name }
func (h *entry) Events() <-chan backends.Event { return h.feed.C() }

func (h *entry) Observe(on bool) {
	s := h.client.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if on == h.observing || h.left || h.client.closed {
		return
	}
	s.requests++
	h.observing = on
	h.generation.Add(1)
	if on {
		s.send(h, Record, h.queue.seen())
	}
}

func (h *entry) View(ctx context.Context) (backends.View, error) {
	s := h.client.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := h.client.begin(ctx, "view"); err != nil {
		return backends.View{}, err
	}
	q := h.queue
	v := backends.View{
		Own:        h.owned(),
		Token:      h.slot.token,
		Record:     clone(q.cell.record),
		Version:    q.cell.name(),
		Unreadable: q.cell.broken,
	}
	for _, sl := range q.slots {
		if sl.token < h.slot.token {
			v.Place++
			v.Foreign = v.Foreign || sl.foreign
		}
	}
	if len(q.slots) > 0 && q.slots[0] != h.slot {
		first := q.slots[0]
		v.Head = &backends.Head{
			Name: first.name, Token: first.token, TTL: first.candidate.TTL,
			ID: first.candidate.ID, Host: first.candidate.Host, Foreign: first.foreign,
		}
	}
	return v, nil
}

func (h *entry) Acquire(ctx context.Context, r backends.Record, seen backends.Version) (backends.Version, error) {
	return h.write(ctx, "acquire", r, func() error {
		if h.queue.place(h.slot) != 0 {
			return refused("not the head")
		}
		return h.unchanged(seen)
	})
}

func (h *entry) Beat(ctx context.Context, r backends.Record, seen backends.Version) (backends.Version, error) {
	return h.write(ctx, "beat", r, func() error { return h.stillMine(seen) })
}

func (h *entry) Evict(ctx context.Context, head backends.Head, r backends.Record, seen backends.Version) (backends.Version, error) {
	return h.write(ctx, "evict", r, func() error {
		sl, err := h.head(head)
		switch {
		case err != nil:
			return err
		case h.queue.place(h.slot) != 1:
			return refused("not the next in line")
		}
		if err := h.unchanged(seen); err != nil {
			return err
		}
		h.client.store.drop(h.queue, sl, h)
		return nil
	})
}

func (h *entry) Remove(ctx context.Context, head backends.Head, seen backends.Version) error {
	return h.do(ctx, "remove", func() error {
		sl, err := h.head(head)
		if err != nil {
			return err
		}
		if err := h.unchanged(seen); err != nil {
			return err
		}
		h.client.store.drop(h.queue, sl, h)
		return nil
	})
}

func (h *entry) Release(ctx context.Context, r backends.Record, seen backends.Version) error {
	s := h.client.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := h.client.begin(ctx, "release"); err != nil {
		return err
	}
	if !h.owned() {
		// A release whose reply was lost: the entry is gone and the record says what this one would make it say.
		if now := h.queue.cell.record; now.Mine(h.slot.token) && (now.Released || !r.Released) {
			return nil
		}
		return gone("release")
	}
	if err := h.stillMine(seen); err != nil {
		return fmt.Errorf("memory: release: %w", err)
	}
	s.write(h.queue, r)
	s.drop(h.queue, h.slot, h)
	return nil
}

func (h *entry) Keep(ctx context.Context) error {
	return h.do(ctx, "keep", func() error {
		if h.slot.expiry != nil {
			h.slot.expiry.Reset(h.client.store.Lease(h.slot.candidate.TTL))
		}
		return nil
	})
}

func (h *entry) KeepEvery() time.Duration {
	if lease := h.client.store.Lease; lease != nil {
		return lease(h.slot.candidate.TTL) / 3
	}
	return 0
}

func (h *entry) Leave(context.Context) error {
	s := h.client.store
	s.mu.Lock()
	h.detach()
	h.client.open = slices.DeleteFunc(h.client.open, func(o *entry) bool { return o == h })
	var err error
	if h.queue.place(h.slot) >= 0 {
		if err = h.client.begin(context.Background(), "leave"); err == nil {
			s.drop(h.queue, h.slot, h)
		}
	}
	s.mu.Unlock()
	h.feed.Close()
	return err
}

func (h *entry) Crash() backends.Crash {
	data, err := json.Marshal(ticket{h.queue.key, h.slot.token})
	if err != nil {
		panic("memory: " + err.Error()) // a string and a number
	}
	return backends.Crash{Data: data}
}

// write is do for the operations that write the record.
func (h *entry) write(ctx context.Context, what string, r backends.Record, condition func() error) (backends.Version, error) {
	var version backends.Version
	err := h.do(ctx, what, func() error {
		if err := condition(); err != nil {
			return err
		}
		version = h.client.store.write(h.queue, r)
		return nil
	})
	return version, err
}

// do runs one operation of an entry that exists, with the store locked.
func (h *entry) do(ctx context.Context, what string, op func() error) error {
	s := h.client.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := h.client.begin(ctx, what); err != nil {
		return err
	}
	if !h.owned() {
		return gone(what)
	}
	if err := op(); err != nil {
		return fmt.Errorf("memory: %s: %w", what, err)
	}
	return nil
}

// The conditions, with the store locked.

func (h *entry) owned() bool { return !h.left && h.queue.place(h.slot) >= 0 }

func (h *entry) unchanged(seen backends.Version) error {
	if now := h.queue.cell.name(); now != seen {
		return refused(fmt.Sprintf("the record has version %q, not %q", now, seen))
	}
	return nil
}

// stillMine is unchanged for an owner: what another term wrote over its record is a definite loss.
func (h *entry) stillMine(seen backends.Version) error {
	err := h.unchanged(seen)
	if now := h.queue.cell.record; err != nil && now != nil && !now.Mine(h.slot.token) {
		return fmt.Errorf("the record is that of token %d: %w", now.Token, backends.ErrLost)
	}
	return err
}

// head finds the slot of a head that somebody else has.
func (h *entry) head(want backends.Head) (*slot, error) {
	first := h.queue.slots[0] // there is one: ours
	switch {
	case first == h.slot || first.name != want.Name || first.token != want.Token:
		return nil, refused("the head is gone")
	case first.foreign:
		return nil, refused("the head is not leaderrun's")
	}
	return first, nil
}

// detach ends the watches, with the store locked.
func (h *entry) detach() {
	h.left, h.observing = true, false
	h.generation.Add(1)
	h.slot.handles = slices.DeleteFunc(h.slot.handles, func(o *entry) bool { return o == h })
}

func refused(why string) error { return fmt.Errorf("%s: %w", why, backends.ErrConflict) }

func gone(what string) error {
	return fmt.Errorf("memory: %s: the entry is gone: %w", what, backends.ErrLost)
}
