package main

import "testing"

// TestMutantsApply: a change of the code must not leave a mutant behind that breaks nothing any more.
func TestMutantsApply(t *testing.T) {
	for _, m := range mutants() {
		replace, err := m.overlay("../..", t.TempDir())
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
		} else if len(replace) == 0 {
			t.Errorf("%s: changes no file", m.name)
		}
	}
}
