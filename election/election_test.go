package election

import "testing"

// TestTableIsTotal: a pair of state and event that nobody thought of would be a nil handler.
func TestTableIsTotal(t *testing.T) {
	for ev, row := range table() {
		for st, h := range row {
			if h == nil {
				t.Errorf("no handler for event %q in state %q", event(ev), state(st))
			}
		}
	}
	if got := event(numEvents).String(); got != "?" {
		t.Errorf("the names of events and the events have come apart: the one after the last is %q", got)
	}
	if got := state(numStates).String(); got != "?" {
		t.Errorf("the names of states and the states have come apart: the one after the last is %q", got)
	}
}
