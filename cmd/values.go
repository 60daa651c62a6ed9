package cmd

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The kinds of values that flags and their variables have.

type text string

func (t *text) String() string     { return string(*t) }
func (t *text) Set(s string) error { *t = text(s); return nil }
func (t *text) Type() string       { return "string" }

type toggle bool

func (t *toggle) String() string { return strconv.FormatBool(bool(*t)) }
func (t *toggle) Type() string   { return "bool" }
func (t *toggle) Set(s string) error {
	v, err := strconv.ParseBool(s)
	if err != nil {
		return errors.New("neither true nor false")
	}
	*t = toggle(v)
	return nil
}

// span is a duration that is not negative.
type span time.Duration

func (d *span) String() string { return time.Duration(*d).String() }
func (d *span) Type() string   { return "duration" }
func (d *span) Set(s string) error {
	v, err := time.ParseDuration(s)
	switch {
	case err != nil && strings.Trim(s, "0123456789") == "" && s != "":
		return fmt.Errorf("a duration needs a unit: %ss, or %sm", s, s)
	case err != nil:
		return errors.New("not a duration such as 500ms, 10s or 1h30m")
	case v < 0:
		return errors.New("a duration cannot be negative")
	}
	*d = span(v)
	return nil
}

type code int

func (c *code) String() string { return strconv.Itoa(int(*c)) }
func (c *code) Type() string   { return "number" }
func (c *code) Set(s string) error {
	v, err := strconv.Atoi(s)
	if err != nil || v < 0 || v > 255 {
		return errors.New("not an exit code from 0 to 255")
	}
	*c = code(v)
	return nil
}

type choice struct {
	at *string
	of []string
}

func (c choice) String() string {
	if c.at == nil {
		return ""
	}
	return *c.at
}
func (c choice) Type() string { return "word" }
func (c choice) Set(s string) error {
	if !slices.Contains(c.of, s) {
		return errors.New("not one of " + strings.Join(c.of, ", "))
	}
	*c.at = s
	return nil
}
