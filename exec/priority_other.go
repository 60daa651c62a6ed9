//go:build !linux

package exec

// priority does nothing here: the nice value is that of the whole process, and a guard that cannot set it back for the
// fork would give its own to the child.
type priority struct{}

func (*priority) take()  {}
func (*priority) give()  {}
func (*priority) raise() {}
func (*priority) quit()  {}
