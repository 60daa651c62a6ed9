// Package boottime measures time on a clock that goes on while the machine is suspended.
//
// A lease that was granted for ten seconds has run out after an hour of suspend, but Go's own monotonic clock (and with
// it every time.Timer) reads CLOCK_MONOTONIC on Linux, which stands still then (golang/go#24595). A deadline on it would
// let a child run on after the lease has long passed to somebody else. Everything in leaderrun that decides about a
// lease uses the instants and the timer of this package.
//
// On Linux the clock is CLOCK_BOOTTIME and the timer a timerfd on it. Elsewhere the clock is the runtime's monotonic
// one: see the comment in boottime_other.go for what that gives away.
//
// What it does not promise: a virtual machine that is paused, or a process that is frozen, has no clock that goes on.
package boottime

import "time"

// Time is an instant on the boot clock, in nanoseconds since the machine started. Instants of different machines, or of
// different boots, cannot be compared. The zero Time is "no instant": no program ran at boot.
type Time int64

// Add returns t + d.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }

// Sub returns t - u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Before reports whether t is earlier than u.
func (t Time) Before(u Time) bool { return t < u }

// IsZero reports whether t is "no instant".
func (t Time) IsZero() bool { return t == 0 }

// Later returns the later one of t and u.
func (t Time) Later(u Time) Time { return max(t, u) }
