// Command leaderrun runs a command only while it leads.
package main

import (
	"os"

	"github.com/leaderrun/leaderrun/cmd"
)

func main() { os.Exit(cmd.Main()) }
