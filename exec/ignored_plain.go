//go:build !sigign

package exec

// runtimeIgnores knows nothing: the runtime does not show it.
func runtimeIgnores() []string { return nil }
