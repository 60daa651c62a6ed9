package main_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/leaderrun/leaderrun"

// arrows is who may import whom, of this module. A package that is not here may not exist; "*" stands for any store.
func arrows() map[string][]string {
	return map[string][]string{
		"":                     {"cmd"},
		"cmd":                  {"election", "exec", "backends", "backends/*", "boottime"},
		"election":             {"backends", "boottime"},
		"exec":                 {"boottime"},
		"backends":             {"boottime"},
		"backends/*":           {"backends", "boottime"},
		"backends/backendtest": {"backends", "boottime"},
		"backends/memory":      {"backends", "boottime"},
		"boottime":             {},
		"scripts/benchmark":    {},
	}
}

// outside is what may be imported besides the standard library, by the package that may. Tests may import more.
func outside() map[string][]string {
	return map[string][]string{
		"cmd":      {"github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/sys/unix"},
		"exec":     {"golang.org/x/sys/unix"},
		"boottime": {"golang.org/x/sys/unix"},
	}
}

// TestArrows holds the arrows of ARCHITECTURE.md: a shortcut between two packages is a decision, not an accident.
func TestArrows(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "dist") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		seen++
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		from := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), ".")
		for _, spec := range f.Imports {
			to, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if !allowed(from, to) {
				t.Errorf("%s: package %q imports %q", path, from, to)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 20 {
		t.Fatalf("only %d files were looked at", seen)
	}
}

func allowed(from, to string) bool {
	own, isOwn := strings.CutPrefix(to, module+"/")
	if !isOwn {
		if first, _, _ := strings.Cut(to, "/"); !strings.Contains(first, ".") {
			return true // the standard library
		}
		store := strings.HasPrefix(from, "backends/") && from != "backends/backendtest" && from != "backends/memory"
		return store || contains(outside()[from], to)
	}
	list, known := arrows()[from]
	if !known && strings.HasPrefix(from, "backends/") {
		list = arrows()["backends/*"]
	}
	return contains(list, own)
}

func contains(patterns []string, name string) bool {
	for _, p := range patterns {
		if ok, _ := filepath.Match(p, name); ok && name != "backends/backendtest" && name != "backends/memory" || p == name {
			return true
		}
	}
	return false
}
