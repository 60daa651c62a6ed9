// Command mutants breaks the election on purpose, one rule at a time, and checks that the simulation notices.
//
//	go run ./scripts/mutants            all of them
//	go run ./scripts/mutants owe        those whose name contains "owe"
//
// A mutant is a few replacements of source text, given to the compiler as an overlay: the tree is not touched. Each
// text to be replaced must stand in its file exactly once, so that a mutant cannot be forgotten when the code changes.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// limit is how many schedules a mutant may survive: as many as the normal test run simulates.
const limit = 20_000

func run() error {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	survivors := 0
	fmt.Printf("%-52s %10s  %s\n", "broken on purpose", "schedules", "what the simulation saw")
	for _, m := range mutants() {
		if len(os.Args) > 1 && !strings.Contains(m.name, os.Args[1]) {
			continue
		}
		out, err := m.simulate(dir)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		n, what := verdict(out)
		if n == "" {
			survivors++
			n, what = fmt.Sprint(">", limit), "NOTHING"
		}
		fmt.Printf("%-52s %10s  %s\n", m.name, n, what)
	}
	if survivors > 0 {
		return fmt.Errorf("%d survived", survivors)
	}
	return nil
}

func verdict(out string) (schedules, what string) {
	found := regexp.MustCompile(`seed \d+ after (\d+) schedules: ([^\n]*)`).FindStringSubmatch(out)
	if found == nil {
		return "", ""
	}
	what = found[2]
	if len(what) > 90 {
		what = what[:90] + "…"
	}
	return found[1], what
}

// overlay writes the mutated files into dir and returns what stands in for what.
func (m mutant) overlay(root, dir string) (map[string]string, error) {
	replace := make(map[string]string)
	for i, e := range m.edits {
		path, err := filepath.Abs(filepath.Join(root, e.file))
		if err != nil {
			return nil, err
		}
		source := path
		if to, ok := replace[path]; ok {
			source = to
		}
		text, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		if n := strings.Count(string(text), e.old); n != 1 {
			return nil, fmt.Errorf("%s: the text stands there %d times, not once: %s", e.file, n, e.old)
		}
		to := filepath.Join(dir, strconv.Itoa(i)+"_"+filepath.Base(e.file))
		if err := os.WriteFile(to, []byte(strings.Replace(string(text), e.old, e.new, 1)), 0o600); err != nil {
			return nil, err
		}
		replace[path] = to
	}
	return replace, nil
}

// simulate builds the election's tests with the mutation and runs the simulation until it fails.
func (m mutant) simulate(dir string) (string, error) {
	replace, err := m.overlay(".", dir)
	if err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list, test := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "election.test")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "test", "-c", "-overlay", list, "-o", test, "./election").CombinedOutput(); err != nil {
		return "", fmt.Errorf("does not compile: %w\n%s", err, out)
	}
	simulation := exec.Command(test, "-test.run", "^TestSimulation$", "-n", fmt.Sprint(limit))
	simulation.WaitDelay = time.Second
	out, err := simulation.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", err
	}
	if err != nil && !strings.Contains(string(out), "schedules:") {
		return "", fmt.Errorf("the simulation ended in another way: %s", out)
	}
	return string(out), nil
}
