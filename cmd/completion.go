package cmd

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// newCompletion writes the completion script of a shell. The script asks this binary, so it knows the flags of the
// version that is installed.
func newCompletion(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:       "completion bash|zsh|fish",
		Short:     "print the completion script of a shell",
		ValidArgs: []string{"bash", "zsh", "fish"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(fmt.Errorf("completion needs one shell, not %d", len(args)), "bash, zsh or fish")
			}
			return nil
		},
		DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error {
			root := c.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			}
			return usage(fmt.Errorf("there is no completion for %q", args[0]), "bash, zsh or fish")
		},
	}
}

// complete says what can follow a flag, or stand as the command.
func complete(c *cobra.Command) {
	for _, f := range runFlags() {
		switch {
		case f.choices != nil:
			_ = c.RegisterFlagCompletionFunc(f.name, cobra.FixedCompletions(f.choices, cobra.ShellCompDirectiveNoFileComp))
		case f.name == "backend":
			_ = c.RegisterFlagCompletionFunc(f.name, cobra.FixedCompletions([]string{"file:///"}, cobra.ShellCompDirectiveNoSpace|cobra.ShellCompDirectiveNoFileComp))
		case f.arg != "":
			_ = c.RegisterFlagCompletionFunc(f.name, cobra.NoFileCompletions)
		}
	}
}
