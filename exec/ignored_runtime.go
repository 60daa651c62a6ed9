//go:build sigign

package exec

import _ "unsafe" // for go:linkname

// fwdSig is what the runtime found installed for each signal before its own handlers: 1 is SIG_IGN. The linker allows
// the reference only with -ldflags=-checklinkname=0, so a plain go install does without. Only read.
//
//go:linkname fwdSig runtime.fwdSig
var fwdSig [65]uintptr

// runtimeIgnores lists every signal that was ignored when this process was executed, one byte each.
func runtimeIgnores() []string {
	var ignored []string
	for n := 1; n < len(fwdSig); n++ {
		if fwdSig[n] == 1 {
			ignored = append(ignored, string([]byte{byte(n)}))
		}
	}
	return ignored
}
