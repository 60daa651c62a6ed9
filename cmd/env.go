package cmd

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The variables that a command gets besides those of its flags.
const (
	envToken = "LEADERRUN_FENCING_TOKEN"
	envTerm  = "LEADERRUN_TERM"
)

// marks makes the values of LEADERRUN_TERM for one key. All terms of a key in a store share the prefix, so that what
// is left of an earlier term can be found; the random end tells the terms apart also when a token came twice.
type marks struct {
	key    string
	random string
}

func newMarks(key string) marks {
	return marks{key: key, random: randomHex(8)}
}

// prefix is what the marks of all terms of the key in this store begin with.
func (m marks) prefix(store string) string {
	sum := sha256.Sum256([]byte(store + "\x00" + m.key))
	return hex.EncodeToString(sum[:8]) + "."
}

// mark is that of one term of this process.
func (m marks) mark(store string, token int64) string {
	return m.prefix(store) + strconv.FormatInt(token, 10) + "." + m.random
}

// randomHex returns 2n characters of [0-9a-f].
func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// baseEnv is the environment that we got, without the variables that are the command's own or may hold a secret.
func baseEnv(environ []string) []string {
	drop := map[string]bool{envToken: true, envTerm: true, "LEADERRUN_KEY": true, "LEADERRUN_ID": true, "LEADERRUN_TTL": true}
	for _, f := range runFlags() {
		if f.secret {
			drop[f.env()] = true
		}
	}
	var kept []string
	for _, e := range environ {
		if name, _, _ := strings.Cut(e, "="); !drop[name] {
			kept = append(kept, e)
		}
	}
	return kept
}

// termEnv is what a command learns about its term.
func termEnv(o *options, scheme, mark string, token int64) []string {
	set := func(name, value string) string { return fmt.Sprintf("%s=%s", name, value) }
	return []string{
		set(envToken, strconv.FormatInt(token, 10)),
		set("LEADERRUN_KEY", o.key),
		set("LEADERRUN_ID", o.id),
		set("LEADERRUN_BACKEND", scheme),
		set("LEADERRUN_TTL", time.Duration(o.timing.TTL).String()),
		set(envTerm, mark),
	}
}
