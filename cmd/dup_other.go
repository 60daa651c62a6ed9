//go:build !linux

package cmd

import "golang.org/x/sys/unix"

// dup2 makes to another name of from.
func dup2(from, to int) error { return unix.Dup2(from, to) }
