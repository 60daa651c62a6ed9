package cmd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/election"
)

// logKeys are all the attributes that a log line can have. Scripts that read --log-format json rely on them; a test
// holds the calls in this program against the list.
func logKeys() []string {
	return []string{
		"key",    // the key
		"id",     // of this candidate
		"token",  // the fencing token of the term
		"leader", // the id of who leads
		"host",   // and its host
		"since",  // and since when, by its wall clock
		"pid",    // of the command
		"status", // how the command ended
		"beat",   // number of a renewal
		"left",   // time until TERM
		"wait",   // time until the next step
		"minv",   // record format that would be needed
		"killed", // processes of an earlier term
		"count",  // of something
		"dir",    // a directory
		"err",    // what went wrong
		"hint",   // what to do about it
		"code",   // the exit code
	}
}

// newLogger makes the one logger of the process.
func newLogger(w io.Writer, format, level string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo // cannot be: the flag has these choices only
	}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l, ReplaceAttr: plain}))
	}
	return slog.New(&lines{mu: new(sync.Mutex), w: w, level: l})
}

// plain gives values that JSON has no good form for one that a person can read.
func plain(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindAny, slog.KindDuration:
		a.Value = slog.StringValue(readable(a.Value))
	}
	return a
}

// lines writes a log for people: "leaderrun: elected key=/jobs/billing token=7". It has no time stamps; cron, systemd
// and containers add theirs.
type lines struct {
	mu    *sync.Mutex
	w     io.Writer
	level slog.Level
	attrs []slog.Attr
}

func (h *lines) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

func (h *lines) Handle(_ context.Context, r slog.Record) error {
	var b bytes.Buffer
	b.WriteString("leaderrun: ")
	switch {
	case r.Level >= slog.LevelError:
		b.WriteString("error: ")
	case r.Level >= slog.LevelWarn:
		b.WriteString("warning: ")
	}
	b.WriteString(r.Message)
	for _, a := range h.attrs {
		write(&b, a)
	}
	r.Attrs(func(a slog.Attr) bool { write(&b, a); return true })
	b.WriteByte('\n')

	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := h.w.Write(b.Bytes()) // one write a line, so that the lines of several processes do not mix
	return err
}

func (h *lines) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.attrs = append(slices.Clip(c.attrs), attrs...)
	return &c
}

// WithGroup is not used in this program.
func (h *lines) WithGroup(string) slog.Handler { return h }

func write(b *bytes.Buffer, a slog.Attr) {
	s := readable(a.Value)
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r == '"' || r == ' ' || !unicode.IsPrint(r) }) {
		s = strconv.Quote(s)
	}
	fmt.Fprintf(b, " %s=%s", a.Key, s)
}

// readable is a value in the words of the manual.
func readable(v slog.Value) string {
	switch v.Kind() {
	case slog.KindDuration:
		return v.Duration().Round(time.Millisecond).String()
	case slog.KindTime:
		return v.Time().Format(time.RFC3339)
	case slog.KindAny:
		if s, ok := v.Any().(election.Status); ok {
			if s.Signal != 0 {
				return signalName(s.Signal)
			}
			return "exit " + strconv.Itoa(s.Code)
		}
	}
	return v.String()
}

func signalName(s unix.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}
