package election_test

import (
	"encoding/json"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/election"
)

const ttl = 10 * time.Second

func once(after time.Duration, code int) func(int) (time.Duration, int) {
	return func(int) (time.Duration, int) { return after, code }
}

func TestChildEndsByItself(t *testing.T) {
	onStage(t, func(s *stage) {
		a := s.enter(func(a *actor) { a.runner.script = once(time.Second, 7) })
		token := a.running(t, time.Second)
		a.wait(t, nil)
		if want := (election.Result{Ran: true, Status: election.Status{Code: 7}}); a.res != want {
			t.Errorf("Run = %+v, want %+v", a.res, want)
		}
		r, _, err := s.store.Record(simKey)
		if err != nil || r == nil || !r.Released || r.Token != token || r.Owe != 0 {
			t.Errorf("the record is %+v, %v; want released by %d", r, err, token)
		}
		if e := s.store.Entries(simKey); len(e) != 0 {
			t.Errorf("entries are left behind: %v", e)
		}
		if a.host.ended != token {
			t.Errorf("the host remembers the end of %d, want %d", a.host.ended, token)
		}
	})
}

// TestHandoverIsImmediate: nothing is waited for after a clean end.
func TestHandoverIsImmediate(t *testing.T) {
	onStage(t, func(s *stage) {
		a := s.enter(func(a *actor) { a.runner.script = once(time.Second, 0) })
		one := a.running(t, time.Second)
		b := s.enter(nil)
		a.wait(t, nil)
		if two := b.running(t, 10*time.Millisecond); two <= one {
			t.Errorf("tokens went from %d to %d", one, two)
		}
		b.term()
		b.runner.Kill(0)
		b.wait(t, nil)
	})
}

func TestTry(t *testing.T) {
	onStage(t, func(s *stage) {
		a := s.enter(func(a *actor) { a.runner.onTERM = 0 })
		a.running(t, time.Second)
		b := s.enter(func(a *actor) { a.cfg.Try = true })
		b.wait(t, election.ErrNotElected)
		if b.took > 2*time.Second {
			t.Errorf("it took %v to see that a leader lives, want no more than a renewal", b.took)
		}
		a.term()
		a.wait(t, nil)
		c := s.enter(func(a *actor) { a.cfg.Try, a.runner.script = true, once(0, 0) })
		c.wait(t, nil)
	})
}

// TestTryAfterCrash: a job that crashed once, with its host, must run again (ARCHITECTURE.md, rule 18).
func TestTryAfterCrash(t *testing.T) {
	onStage(t, func(s *stage) {
		s.deadLeader(t)
		b := s.enter(func(a *actor) { a.cfg.Try, a.runner.script = true, once(0, 0) })
		b.wait(t, nil)
		if b.took < ttl || b.took > ttl+ttl/5 {
			t.Errorf("it started after %v, want just over %v", b.took, ttl)
		}
	})
}

// deadLeader leaves what a leader leaves whose host vanished: an entry and an unreleased record.
func (s *stage) deadLeader(t *testing.T) int64 {
	t.Helper()
	b := s.store.Open()
	s.close = append(s.close, func() { b.Close() })
	e, err := b.Enter(t.Context(), backends.Candidate{Key: simKey, ID: "dead", Nonce: "dead", TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	v, err := e.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := backends.Record{V: 1, MinV: 1, ID: "dead", Token: v.Token, TTL: ttl, Owe: ttl, Beat: 1}
	if _, err := e.Acquire(t.Context(), r, v.Version); err != nil {
		t.Fatal(err)
	}
	return v.Token
}

func TestWaitRunsOut(t *testing.T) {
	onStage(t, func(s *stage) {
		s.deadLeader(t)
		b := s.enter(func(a *actor) { a.cfg.Wait = 3 * time.Second })
		b.wait(t, election.ErrNotElected)
		if b.took != 3*time.Second {
			t.Errorf("it gave up after %v, want 3s", b.took)
		}
		s.store.SetDown(true)
		c := s.enter(func(a *actor) { a.cfg.Wait = 3 * time.Second })
		c.wait(t, backends.ErrUnavailable)
		d := s.enter(func(a *actor) { a.cfg.Try = true })
		d.wait(t, backends.ErrUnavailable)
		if d.took > time.Second {
			t.Errorf("--try took %v to say that the store is down", d.took)
		}
	})
}

func TestStoreDownAtStart(t *testing.T) {
	onStage(t, func(s *stage) {
		s.store.SetDown(true)
		a := s.enter(func(a *actor) { a.runner.onTERM = 0 })
		a.idle(t, time.Minute)
		s.store.SetDown(false)
		a.running(t, 6*time.Second)
		a.term()
		a.wait(t, nil)
	})
}

func TestHold(t *testing.T) {
	onStage(t, func(s *stage) {
		a := s.enter(func(a *actor) { a.cfg.Hold, a.runner.script = time.Minute, once(0, 0) })
		a.running(t, time.Second)
		b := s.enter(func(a *actor) { a.runner.onTERM = 0 })
		b.idle(t, 59*time.Second)
		b.running(t, 2*time.Second)
		a.wait(t, nil)
		b.term()
		b.wait(t, nil)
	})
}

func TestRestart(t *testing.T) {
	codes := []int{1, 2, 0}
	for policy, want := range map[election.Restart]int{election.RestartNever: 1, election.RestartOnFailure: 3} {
		onStage(t, func(s *stage) {
			a := s.enter(func(a *actor) {
				a.cfg.Restart = policy
				a.runner.script = func(n int) (time.Duration, int) { return time.Second, codes[n-1] }
			})
			a.wait(t, nil)
			if got := a.runner.starts(); got != want {
				t.Errorf("policy %v: %d starts, want %d", policy, got, want)
			}
			if got := a.res.Status.Code; got != codes[want-1] {
				t.Errorf("policy %v: the code is %d, want %d", policy, got, codes[want-1])
			}
		})
	}
}

func TestRestartEndsAtStop(t *testing.T) {
	onStage(t, func(s *stage) {
		a := s.enter(func(a *actor) {
			a.cfg.Restart = election.RestartAlways
			a.runner.onTERM = time.Second
		})
		a.running(t, time.Second)
		a.term()
		a.wait(t, nil)
		if a.runner.starts() != 1 || a.res.Status.Code != 3 {
			t.Errorf("%d starts, %+v; want one, and its own code", a.runner.starts(), a.res)
		}
	})
}

func TestLossExits(t *testing.T) {
	onStage(t, func(s *stage) {
		a := s.enter(nil)
		token := a.running(t, time.Second)
		b := s.enter(func(a *actor) { a.runner.onTERM = 0 })
		time.Sleep(time.Second)
		s.store.Expire(token)
		a.wait(t, election.ErrLeaseLost)
		b.running(t, 2*ttl)
		b.term()
		b.wait(t, nil)
	})
}

func TestLossCampaigns(t *testing.T) {
	onStage(t, func(s *stage) {
		a := s.enter(func(a *actor) { a.cfg.OnLoss, a.runner.onTERM = election.LossCampaign, 0 })
		one := a.running(t, time.Second)
		s.store.Expire(one)
		time.Sleep(time.Second)
		if two := a.running(t, 2*ttl); two <= one {
			t.Errorf("tokens went from %d to %d", one, two)
		}
		a.term()
		a.wait(t, nil)
	})
}

// TestStoreLost: without the store the child gets TERM at E-m-g and is dead by E, and the term is never taken up again.
func TestStoreLost(t *testing.T) {
	onStage(t, func(s *stage) {
		a := s.enter(nil)
		a.running(t, time.Second)
		time.Sleep(5 * time.Second)
		s.store.SetDown(true)
		down := time.Now()
		a.wait(t, election.ErrLeaseLost)
		if d := time.Since(down); d > ttl+2*time.Second {
			t.Errorf("it ended %v after the store had gone", d)
		}
	})
}

// TestUnkillable: as long as the tree is not confirmed dead, renewals go on, and nobody else starts.
func TestUnkillable(t *testing.T) {
	onStage(t, func(s *stage) {
		a := s.enter(func(a *actor) { a.runner.stuck = 5 * ttl })
		a.running(t, time.Second)
		b := s.enter(func(a *actor) { a.runner.onTERM = 0 })
		time.Sleep(2 * time.Second)
		s.store.SetDown(true)
		time.Sleep(8 * time.Second) // TERM was sent
		s.store.SetDown(false)
		b.idle(t, 4*ttl)
		a.wait(t, election.ErrLeaseLost)
		b.running(t, time.Second)
		b.term()
		b.wait(t, nil)
	})
}

func TestDrain(t *testing.T) {
	onStage(t, func(s *stage) {
		a := s.enter(func(a *actor) { a.runner.onTERM = 3 * ttl })
		a.running(t, time.Second)
		b := s.enter(func(a *actor) { a.runner.onTERM = 0 })
		a.term()
		b.idle(t, 3*ttl-time.Second)
		a.wait(t, nil)
		if a.res.Status.Code != 3 || len(a.runner.signals) != 1 {
			t.Errorf("%+v after signals %v; want code 3 after one", a.res, a.runner.signals)
		}
		b.running(t, 2*time.Second)
		b.term()
		b.wait(t, nil)
	})
}

func TestSecondTERMKills(t *testing.T) {
	onStage(t, func(s *stage) {
		a := s.enter(nil)
		a.running(t, time.Second)
		a.term()
		time.Sleep(time.Second)
		a.term()
		a.wait(t, nil)
		if a.res.Status.Signal != syscall.SIGKILL || a.took > 2*time.Second {
			t.Errorf("%+v after %v; want killed at once", a.res, a.took)
		}
	})
}

func TestStopTimeout(t *testing.T) {
	onStage(t, func(s *stage) {
		a := s.enter(func(a *actor) { a.cfg.StopTimeout = 4 * ttl })
		a.running(t, time.Second)
		start := time.Now()
		a.term()
		a.wait(t, nil)
		if d := time.Since(start); d != 4*ttl {
			t.Errorf("killed after %v, want %v", d, 4*ttl)
		}
	})
}

func TestSignalsPassOnce(t *testing.T) {
	onStage(t, func(s *stage) {
		a := s.enter(nil)
		a.running(t, time.Second)
		a.signals <- election.Signal{Num: syscall.SIGHUP}
		a.signals <- election.Signal{Num: syscall.SIGUSR1, Group: true} // the child has it
		a.signals <- election.Signal{Num: syscall.SIGQUIT}
		a.term()
		a.term()
		a.wait(t, nil)
		want := []syscall.Signal{syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTERM}
		if len(a.runner.signals) != len(want) {
			t.Fatalf("signals %v, want %v", a.runner.signals, want)
		}
		for i := range want {
			if a.runner.signals[i] != want[i] {
				t.Errorf("signals %v, want %v", a.runner.signals, want)
			}
		}
	})
}

// TestSignalWhileWaiting ends the wait at once, and leaves what is still owed in force.
func TestSignalWhileWaiting(t *testing.T) {
	onStage(t, func(s *stage) {
		dead := s.deadLeader(t)
		s.store.Expire(dead) // the store is too early
		a := s.enter(nil)
		time.Sleep(4 * time.Second) // acquired, waiting
		a.term()
		a.stopped(t)
		r, _, _ := s.store.Record(simKey)
		if r == nil || r.Released || r.Owe < 6*time.Second || r.Owe > 7*time.Second {
			t.Errorf("the record is %+v, want about 6.1s owed", r)
		}
		b := s.enter(func(a *actor) { a.runner.onTERM = 0 })
		b.idle(t, 6*time.Second)
		b.running(t, time.Second)
		b.term()
		b.wait(t, nil)
	})
}

// stopped waits for a candidate that TERM ends before it led.
func (a *actor) stopped(t *testing.T) {
	t.Helper()
	<-a.done
	var stopped *election.StoppedError
	if !errors.As(a.err, &stopped) || stopped.Signal != syscall.SIGTERM {
		t.Fatalf("Run = %v, want stopped by TERM", a.err)
	}
}

func TestForeignHolder(t *testing.T) {
	onStage(t, func(s *stage) {
		s.store.AddForeign(simKey)
		a := s.enter(func(a *actor) { a.runner.onTERM, a.cfg.ForeignWait = 0, 7*time.Second })
		a.idle(t, 10*time.Minute) // it writes no heartbeats, and is never evicted
		s.store.RemoveForeign(simKey)
		a.idle(t, 7*time.Second)
		a.running(t, time.Second)
		a.term()
		a.wait(t, nil)

		s.store.AddForeign(simKey)
		b := s.enter(func(a *actor) { a.cfg.Try = true })
		b.wait(t, election.ErrNotElected)
	})
}

func TestUnreadableRecord(t *testing.T) {
	onStage(t, func(s *stage) {
		s.store.SetRecord(simKey, []byte("not a record"))
		a := s.enter(func(a *actor) { a.runner.onTERM = 0 })
		a.idle(t, election.MaxTTL)
		a.running(t, 10*time.Second)
		// A living leader's next renewal repairs it.
		s.store.SetRecord(simKey, []byte("{"))
		time.Sleep(3 * time.Second)
		if _, _, err := s.store.Record(simKey); err != nil {
			t.Errorf("the record was not repaired: %v", err)
		}
		a.term()
		a.wait(t, nil)
	})
}

func TestAbsentRecord(t *testing.T) {
	onStage(t, func(s *stage) { // known on this host: somebody deleted it
		s.store.SetRecord(simKey, nil) // a revision, so that tokens are above what is remembered
		a := s.enter(func(a *actor) {
			a.runner.onTERM, a.host.memory = 0, election.Memory{Token: 1, TTL: 3 * ttl}
		})
		a.idle(t, 3*ttl)
		a.running(t, time.Second)
		a.term()
		a.wait(t, nil)
	})
}

func TestNewerFormat(t *testing.T) {
	onStage(t, func(s *stage) {
		doc, err := json.Marshal(backends.Record{V: 9, MinV: 9, Token: 1, TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		s.store.SetRecord(simKey, doc)
		a := s.enter(nil)
		a.wait(t, election.ErrNewerFormat)
		if now, _, _ := s.store.Record(simKey); now.MinV != 9 {
			t.Error("the record of a later version was overwritten")
		}
	})
}

func TestUnknownFieldsAreKept(t *testing.T) {
	onStage(t, func(s *stage) {
		doc, err := json.Marshal(backends.Record{
			V: 2, MinV: 1, Token: 1, TTL: ttl, Released: true, Extra: map[string]json.RawMessage{"later": json.RawMessage(`"x"`)},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.store.SetRecord(simKey, doc)
		a := s.enter(func(a *actor) { a.runner.script = once(3*time.Second, 0) })
		a.running(t, time.Second)
		a.wait(t, nil)
		if r, _, _ := s.store.Record(simKey); string(r.Extra["later"]) != `"x"` || r.Token <= 1 {
			t.Errorf("the record is %+v, want the unknown field kept", r)
		}
	})
}

func TestStaleToken(t *testing.T) {
	onStage(t, func(s *stage) {
		a := s.enter(func(a *actor) { a.host.memory = election.Memory{Token: 1000, TTL: time.Second} })
		a.wait(t, election.ErrStaleToken)
		if a.runner.starts() != 0 {
			t.Error("a child was started with a token that is not above the last one")
		}
	})
}

func TestDenied(t *testing.T) {
	onStage(t, func(s *stage) {
		b := s.store.OpenDenied()
		defer b.Close()
		if _, err := b.Enter(t.Context(), backends.Candidate{Key: simKey, Nonce: "x", TTL: ttl}); !errors.Is(err, backends.ErrDenied) {
			t.Fatalf("Enter = %v, want denied", err)
		}
	})
}

// TestCrowd: what a handover and a heartbeat ask of the store does not grow with the number of those who wait.
func TestCrowd(t *testing.T) {
	cost := func(waiting int) int {
		var n int
		onStage(t, func(s *stage) {
			a := s.enter(func(a *actor) { a.runner.onTERM = 0 })
			a.running(t, time.Second)
			crowd := make([]*actor, waiting)
			for i := range crowd {
				crowd[i] = s.enter(func(a *actor) { a.runner.onTERM = 0 })
				time.Sleep(time.Millisecond)
			}
			time.Sleep(30 * time.Second)
			before := s.store.Requests()
			a.term()
			crowd[0].running(t, time.Second)
			n = s.store.Requests() - before
			for _, c := range crowd {
				go c.term()
			}
			for _, c := range crowd {
				<-c.done
			}
		})
		return n
	}
	few, many := cost(5), cost(100)
	if many > few+5 {
		t.Errorf("a handover cost %d requests with 5 waiting and %d with 100", few, many)
	}
}
