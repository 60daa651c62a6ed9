//go:build race

package election_test

// defaultSchedules is fewer under the race detector: it makes each a dozen times slower, and looks for something else.
const defaultSchedules = 1_000
