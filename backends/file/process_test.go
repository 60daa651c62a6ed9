package file_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The kernel frees the lock of a process that is killed, at once, and its term counts.
func TestKilledHolder(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "hold", dir)
	token, _ := p.token(t)
	waiter := enter(t, dir, "waiter")
	v := view(t, waiter)
	if v.Place != 1 || v.Head == nil || v.Head.Token != token || v.Head.ID != "leader" || v.Record.Released {
		t.Fatalf("View = %+v with head %+v, want place 1 behind token %d", v, v.Head, token)
	}
	killed := time.Now()
	p.kill()
	v = awaitHead(t, waiter)
	if took := time.Since(killed); took > time.Second {
		t.Errorf("the lock came %v after the kill", took)
	}
	if v.Token != token+1 || v.Record == nil || v.Record.Token != token || !v.Record.Released {
		t.Fatalf("View = %+v of %+v, want token %d and a record that owes nothing", v, v.Record, token+1)
	}
}

// With a guard that shares the open file the lock outlives the killed holder, until the guard hands it back.
func TestGuardHoldsTheLock(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "hold with a guard", dir)
	token, pid := p.token(t)
	if pid != p.cmd.Process.Pid {
		t.Fatalf("pid = %d, want %d", pid, p.cmd.Process.Pid)
	}
	waiter := enter(t, dir, "waiter")
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.cmd.Process.Wait(); err != nil {
		t.Fatal(err)
	}
	// The holder is gone. A third party that does not wait sees the lock held as long as the guard lives.
	for range 20 {
		if other := enter(t, dir, "other"); view(t, other).Place == 0 {
			t.Fatalf("the lock is free while the guard has it")
		} else {
			leave(t, other)
		}
	}
	_ = p.stdin.Close() // the guard's sign that the tree is dead
	if v := awaitHead(t, waiter); v.Token != token+1 || v.Record.Host != "guard" || v.Record.Token != token {
		t.Fatalf("View = %+v of %+v, want what the guard wrote", v, v.Record)
	}
	p.lines(t) // until the guard has ended
}

// Two processes lead in turns and are killed at any moment: tokens rise and never two at once.
func TestTokensUnderKills(t *testing.T) {
	const wanted = 200
	dir := t.TempDir()
	log := filepath.Join(t.TempDir(), "log")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var running [2]*process
	kills := 0
	for deadline := time.Now().Add(60 * time.Second); ; {
		for i := range running {
			if running[i] == nil {
				running[i] = start(t, "terms", dir, "LEADERRUN_FILE_TEST_LOG="+log)
			}
		}
		data, err := os.ReadFile(log)
		if err == nil && strings.Count(string(data), "begin") >= wanted && kills >= 10 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d terms in a minute", strings.Count(string(data), "begin"))
		}
		time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
		i := random.IntN(len(running))
		running[i].kill()
		running[i] = nil
		kills++
	}
	for _, p := range running {
		if p != nil {
			p.kill()
		}
	}
	lines := strings.Split(strings.TrimSpace(string(read(t, log))), "\n")
	var last, leading int64
	for _, line := range lines {
		var what string
		var token int64
		if _, err := fmt.Sscan(line, &what, &token); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		switch {
		case what == "begin" && token <= last:
			t.Fatalf("token %d after %d", token, last)
		case what == "begin":
			last, leading = token, token
		case token != leading:
			t.Fatalf("token %d ends in the term of %d", token, leading)
		}
	}
	t.Logf("%d terms, last token %d, %d kills", strings.Count(strings.Join(lines, " "), "begin"), last, kills)
	if got := names(t, dir); !slices.Equal(slices.DeleteFunc(got, func(n string) bool { return strings.HasPrefix(n, ".new-") }), []string{lease}) {
		t.Fatalf("the directory holds %v", got)
	}
}

// Handing over is a matter of microseconds, not of a polling interval.
func TestHandoverIsImmediate(t *testing.T) {
	dir := t.TempDir()
	var took []time.Duration
	holder := enter(t, dir, "first")
	r, version := lead(t, holder)
	for range 20 {
		waiter := enter(t, dir, "waiter")
		r.Released = true
		begin := time.Now()
		if err := holder.Release(t.Context(), r, version); err != nil {
			t.Fatalf("Release = %v", err)
		}
		<-waiter.Events()
		took = append(took, time.Since(begin))
		r, version = lead(t, waiter)
		leave(t, holder)
		holder = waiter
	}
	slices.Sort(took)
	t.Logf("release to grant: median %v, worst %v", took[len(took)/2], took[len(took)-1])
	if median := took[len(took)/2]; median > 50*time.Millisecond {
		t.Errorf("a handover takes %v", median)
	}
}
