package boottime_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leaderrun/leaderrun/boottime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNowRises(t *testing.T) {
	a := boottime.Now()
	time.Sleep(2 * time.Millisecond)
	b := boottime.Now()
	if !a.Before(b) || b.Sub(a) < 2*time.Millisecond {
		t.Fatalf("clock went from %d to %d over a sleep of 2ms", a, b)
	}
	if a.IsZero() {
		t.Fatal("Now is the zero Time, which means no instant")
	}
}

func TestTimer(t *testing.T) {
	timer, err := boottime.NewTimer()
	if err != nil {
		t.Fatal(err)
	}
	defer timer.Close()

	for _, d := range []time.Duration{20 * time.Millisecond, 0, -time.Hour} {
		start := boottime.Now()
		timer.Set(start.Add(d))
		select {
		case <-timer.C():
			if took := boottime.Now().Sub(start); took < d {
				t.Errorf("timer set to +%v fired after %v", d, took)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("timer set to +%v did not fire", d)
		}
	}
}

func TestTimerSetAgain(t *testing.T) {
	timer, err := boottime.NewTimer()
	if err != nil {
		t.Fatal(err)
	}
	defer timer.Close()

	timer.Set(boottime.Now().Add(30 * time.Millisecond))
	timer.Set(boottime.Now().Add(time.Hour))
	select {
	case <-timer.C():
		t.Fatal("a timer that was set to a later instant fired at the first one")
	case <-time.After(100 * time.Millisecond):
	}
	timer.Set(0)
	timer.Set(boottime.Now().Add(time.Millisecond))
	select {
	case <-timer.C():
	case <-time.After(10 * time.Second):
		t.Fatal("timer did not fire after it was disarmed and set again")
	}
}
