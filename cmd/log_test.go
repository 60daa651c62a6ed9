package cmd

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/election"
)

func TestLines(t *testing.T) {
	var b bytes.Buffer
	log := newLogger(&b, "text", "debug").With("key", "/a")
	log.Info("waiting", "leader", "host a", "since", time.Date(2026, 11, 30, 1, 2, 3, 4, time.UTC))
	log.Warn("not renewed", "left", 1234567*time.Microsecond, "err", errors.New("a\nb"))
	log.Error("ended", "status", election.Status{Signal: syscall.SIGKILL}, "id", "")
	log.Debug("ended", "status", election.Status{Code: 3})
	want := `leaderrun: waiting key=/a leader="host a" since=2026-11-30T01:02:03Z
leaderrun: warning: not renewed key=/a left=1.235s err="a\nb"
leaderrun: error: ended key=/a status=SIGKILL id=""
leaderrun: ended key=/a status="exit 3"
`
	if b.String() != want {
		t.Fatalf("log =\n%swant\n%s", b.String(), want)
	}
}

func TestLogLevelAndJSON(t *testing.T) {
	var b bytes.Buffer
	log := newLogger(&b, "json", "warn")
	log.Info("no")
	log.Warn("yes", "status", election.Status{Code: 3}, "wait", time.Second)
	if got := b.String(); !bytes.Contains(b.Bytes(), []byte(`"msg":"yes","status":"exit 3","wait":"1s"`)) || bytes.Contains(b.Bytes(), []byte(`"no"`)) {
		t.Fatalf("log = %s", got)
	}
}

// TestLogKeys holds the attribute keys of all log calls against the one list.
func TestLogKeys(t *testing.T) {
	known := logKeys()
	calls := 0
	for _, dir := range []string{".", "../election"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !isLog(call) {
					return true
				}
				calls++
				for i := 1; i < len(call.Args); i += 2 {
					lit, ok := call.Args[i].(*ast.BasicLit)
					if !ok {
						return true // args..., made beside the call
					}
					if key, _ := strconv.Unquote(lit.Value); !slices.Contains(known, key) {
						t.Errorf("%s: log key %q is not in the list", file, key)
					}
				}
				return true
			})
		}
	}
	if calls < 20 {
		t.Fatalf("only %d log calls were found", calls)
	}
}

// isLog: log.Info(…), c.log.Info(…) and the like.
func isLog(call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, method.Sel.Name) {
		return false
	}
	switch on := method.X.(type) {
	case *ast.Ident:
		return on.Name == "log"
	case *ast.SelectorExpr:
		return on.Sel.Name == "log"
	}
	return false
}

func TestLogKeysAreOnce(t *testing.T) {
	keys := logKeys()
	slices.Sort(keys)
	if n := len(slices.Compact(slices.Clone(keys))); n != len(keys) {
		t.Fatalf("the list has %d keys twice", len(keys)-n)
	}
	var _ slog.Handler = (*lines)(nil)
}
