package cmd

import (
	"fmt"
	"io"
	"strings"
)

const helpTop = `leaderrun runs a command only while it leads: of all who campaign for the
same key, one at a time.

Usage:
  leaderrun [flags] -- COMMAND [ARG...]
  leaderrun completion bash|zsh|fish
  leaderrun version

COMMAND is started when this candidate is elected, and is stopped, with all
that it started, before another may lead. Its exit code is passed on.
`

const helpBottom = `
Every flag can be set by a variable: --stop-timeout by LEADERRUN_STOP_TIMEOUT.
A duration D is written like 500ms, 10s or 1h30m.

Exit codes: the command's own; 64 usage, 69 store unreachable, 75 not elected,
76 lease lost, 77 access denied, 78 token refused, 126 and 127 COMMAND cannot
be executed or was not found.

Examples:
  Run a job on whichever host leads, and take over when that host fails:
    leaderrun --key /jobs/billing -- ./reconcile.sh

  From cron on many hosts; skip if another one runs it:
    leaderrun -k /jobs/report --try -E 0 --hold 30s -- /usr/local/bin/report

  A service that must never run twice, and may take a minute to stop:
    leaderrun -k /svc/ingest --stop-timeout 1m -- ./ingest --port 8080

  Give the resource the token, so that it can refuse an older one:
    leaderrun -k /db/move -- sh -c './move --fence $LEADERRUN_FENCING_TOKEN'
`

// helpColumn is where the explanations begin.
const helpColumn = 30

// writeHelp writes the help of leaderrun and of leaderrun run, which are one.
func writeHelp(w io.Writer) error {
	var b strings.Builder
	b.WriteString(helpTop)
	group := ""
	for _, f := range runFlags() {
		if f.group != group {
			group = f.group
			fmt.Fprintf(&b, "\n%s:\n", group)
		}
		left := "      --" + f.name
		if f.short != "" {
			left = "  -" + f.short + ", --" + f.name
		}
		if f.arg != "" {
			left += " " + f.arg
		}
		lines := strings.Split(f.help, "\n")
		if f.def != "" {
			last := &lines[len(lines)-1]
			if note := " (" + f.def + ")"; helpColumn+len(*last)+len(note) <= 80 {
				*last += note
			} else {
				lines = append(lines, "("+f.def+")")
			}
		}
		for i, line := range lines {
			if i > 0 {
				left = ""
			}
			if len(left) >= helpColumn {
				fmt.Fprintf(&b, "%s\n", left)
				left = ""
			}
			fmt.Fprintf(&b, "%-*s%s\n", helpColumn, left, line)
		}
	}
	b.WriteString(helpBottom)
	_, err := io.WriteString(w, b.String())
	return err
}
