// Package election decides who may run a child, and until when. It is the election protocol: the campaign for a key, the
// heartbeats, the deadline, what predecessors are owed, evictions, and the end of a term. It does no I/O: the store is a
// backends.Backend, the child a Runner, the disk a Host, and time a Clock.
//
// What it promises, if the store's writes are linearizable and the clock rates of hosts differ by less than 1 %: the
// tree of a term is dead before another term's child starts, and tokens rise. That does not depend on when the store
// expires an entry, on watches, on how long a call takes or whether it takes effect after it failed, nor on this
// process running at all: the Runner keeps the deadline by itself.
//
// What it does not promise: anything about holders that are not leaderrun, which write no heartbeats; about a Runner that
// is frozen together with the child; about a store that was put back to an earlier state, beyond refusing a token that
// is not above the last one started on this host.
//
// The rules by number that comments refer to are those of ARCHITECTURE.md, "The protocol".
package election
