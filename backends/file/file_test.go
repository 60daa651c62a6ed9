package file_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/backendtest"
	"github.com/leaderrun/leaderrun/backends/file"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, dir string) *file.Backend {
	t.Helper()
	b, err := file.Open(dir, file.Options{})
	if err != nil {
		t.Fatalf("Open = %v", err)
	}
	return b
}

func TestConformance(t *testing.T) {
	dir := t.TempDir()
	backendtest.Run(t, backendtest.Harness{
		Open: func(t *testing.T) backends.Backend { return open(t, dir) },
	})
}
