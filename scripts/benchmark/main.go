// Command benchmark compares leaderrun with flock(1), in one run, the two taking turns so that whatever else the machine
// does meets both. It prints medians and ratios beside the bounds that leaderrun is held to. Linux only.
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	leaderrun := flag.String("leaderrun", "./leaderrun", "the binary")
	rounds := flag.Int("n", 60, "rounds of each")
	flag.Parse()
	if err := run(*leaderrun, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "benchmark:", err)
		os.Exit(1)
	}
}

// A wrapper runs a command under a lock.
type wrapper func(command ...string) *exec.Cmd

func run(leaderrun string, rounds int) error {
	binary, err := filepath.Abs(leaderrun)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "leaderrun-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ours := func(command ...string) *exec.Cmd {
		c := exec.Command(binary, append([]string{"--key", "/bench", "--backend", "file://" + dir + "/state", "--"}, command...)...)
		return c
	}
	flock := func(command ...string) *exec.Cmd {
		return exec.Command("flock", append([]string{filepath.Join(dir, "lock")}, command...)...)
	}

	var bare, trueFlock, trueOurs, handFlock, handOurs []float64
	for i := range rounds + 2 {
		warm := i >= 2
		for _, one := range []struct {
			to *[]float64
			w  wrapper
			f  func(wrapper) (time.Duration, error)
		}{
			{&bare, func(c ...string) *exec.Cmd { return exec.Command(c[0], c[1:]...) }, wall},
			{&trueFlock, flock, wall}, {&trueOurs, ours, wall},
			{&handFlock, flock, handover}, {&handOurs, ours, handover},
		} {
			d, err := one.f(one.w)
			if err != nil {
				return err
			}
			if warm {
				*one.to = append(*one.to, float64(d.Microseconds())/1000)
			}
		}
	}
	pssFlock, err := waitingPSS(flock)
	if err != nil {
		return err
	}
	pssOurs, err := waitingPSS(ours)
	if err != nil {
		return err
	}

	fmt.Printf("%d rounds, medians, in brackets the 95th percentile\n\n", rounds)
	fmt.Printf("%-38s %17s %17s %7s   %s\n", "", "flock", "leaderrun", "ratio", "bound")
	row("run /bin/true, ms", trueFlock, trueOurs, "12 ms, or 6 x flock where flock takes more than 2")
	row("handover to a waiter, ms", handFlock, handOurs, "3 x flock")
	fmt.Printf("%-38s %17.1f %17.1f %7s   %s\n", "memory of a waiting one, MiB PSS", pssFlock, pssOurs, "", "24 MiB, guard included")
	fmt.Printf("\n/bin/true alone takes %.1f ms\n", median(bare))
	return nil
}

func row(name string, flock, ours []float64, bound string) {
	cell := func(x []float64) string { return fmt.Sprintf("%.2f (%.2f)", median(x), quantile(x, 0.95)) }
	fmt.Printf("%-38s %17s %17s %7.1f   %s\n", name, cell(flock), cell(ours), median(ours)/median(flock), bound)
}

func median(x []float64) float64 { return quantile(x, 0.5) }

func quantile(x []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(x))
	return s[min(int(q*float64(len(s))), len(s)-1)]
}

// wall is the time of one run of a command that does nothing.
func wall(w wrapper) (time.Duration, error) {
	c := w("/bin/true")
	start := time.Now()
	err := c.Run()
	return time.Since(start), err
}

// handover is the time from the end of a holder's command to what the next one's command writes.
func handover(w wrapper) (time.Duration, error) {
	holder, input, _, err := hold(w)
	if err != nil {
		return 0, err
	}
	waiter := w("/bin/echo", "up")
	out, err := waiter.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := waiter.Start(); err != nil {
		return 0, err
	}
	time.Sleep(50 * time.Millisecond) // it has queued up by then; both get the same time

	start := time.Now()
	input.Close()
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		return 0, fmt.Errorf("the waiter did not run: %w", err)
	}
	took := time.Since(start)
	if err := waiter.Wait(); err != nil {
		return 0, err
	}
	return took, holder.Wait()
}

// hold starts a command that ends when its input is closed, and returns when it runs.
func hold(w wrapper) (c *exec.Cmd, input io.WriteCloser, output *bufio.Reader, err error) {
	c = w("/bin/cat")
	input, err = c.StdinPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	if err := c.Start(); err != nil {
		return nil, nil, nil, err
	}
	if _, err := io.WriteString(input, "up\n"); err != nil {
		return nil, nil, nil, err
	}
	output = bufio.NewReader(out)
	_, err = output.ReadString('\n')
	return c, input, output, err
}

// waitingPSS is the memory of one that waits, with all its processes, while another one leads.
func waitingPSS(w wrapper) (mib float64, err error) {
	holder, input, _, err := hold(w)
	if err != nil {
		return 0, err
	}
	waiter := w("/bin/true")
	if err := waiter.Start(); err != nil {
		return 0, err
	}
	time.Sleep(300 * time.Millisecond)
	for _, pid := range append(children(waiter.Process.Pid), waiter.Process.Pid) {
		one, err := pss(pid)
		if err != nil {
			return 0, err
		}
		mib += one
	}
	input.Close()
	if err := holder.Wait(); err != nil {
		return 0, err
	}
	return mib, waiter.Wait()
}

func children(pid int) (pids []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		data, _ := os.ReadFile(file)
		for _, field := range strings.Fields(string(data)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(append(pids, child), children(child)...)
			}
		}
	}
	return pids
}

func pss(pid int) (mib float64, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(data) {
		if fields := strings.Fields(string(line)); len(fields) == 3 && fields[0] == "Pss:" {
			kib, err := strconv.ParseFloat(fields[1], 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("no Pss of process %d", pid)
}
