//go:build !race

package election_test

// defaultSchedules is how many schedules the normal test run simulates.
const defaultSchedules = 20_000
