package cmd

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker in a release (-X), the one package variable that has to be.
var version string

// versionLine is what "leaderrun version" prints: of a release, or what the Go toolchain knows of a build.
func versionLine() string {
	v := version
	if v == "" {
		v = "(devel)"
		if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
			v = info.Main.Version
		}
	}
	return fmt.Sprintf("leaderrun %s %s/%s %s", v, runtime.GOOS, runtime.GOARCH, runtime.Version())
}
