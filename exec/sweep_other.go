//go:build !linux

package exec

import "context"

// Sweep finds nothing here: macOS shows the environment of other processes to no ordinary program. What survives when
// leaderrun and guard are killed at one stroke lives on: the fencing token is the defence.
func Sweep(context.Context, string, string, string) (Swept, error) { return Swept{}, nil }
