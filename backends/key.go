package backends

import (
	"fmt"
	"strings"
)

// MaxKey is the greatest length of a key, in bytes: what fits a file name together with its suffix.
const MaxKey = 240

// CheckKey says whether key is a key: "/jobs/billing", parts of [A-Za-z0-9._@:+=-] that are neither "." nor "..",
// each after a slash, at most MaxKey bytes. The one rule for every store. The error wraps ErrBadKey and never repeats
// bytes that a terminal would act on.
func CheckKey(key string) error {
	bad := func(why, hint string) error {
		shown := key
		if len(shown) > 60 {
			shown = shown[:60] + "…"
		}
		return WithHint(fmt.Errorf("key %q: %s: %w", shown, why, ErrBadKey), hint)
	}
	const form = "a key looks like /jobs/billing: parts of letters, digits and . _ @ : + = - after slashes"
	switch {
	case key == "":
		return bad("it is empty", form)
	case len(key) > MaxKey:
		return bad(fmt.Sprintf("it has %d characters, more than %d", len(key), MaxKey), form)
	case key[0] != '/':
		return bad("it does not begin with a slash", fmt.Sprintf("try %q", "/"+strings.ToValidUTF8(key, "")))
	}
	for part := range strings.SplitSeq(key[1:], "/") {
		switch {
		case part == "":
			return bad("it has an empty part", form+"; no slash at the end, no two in a row")
		case part == "." || part == "..":
			return bad(fmt.Sprintf("it has a part %q", part), form)
		}
		for i := range len(part) {
			if !keyByte(part[i]) {
				return bad(fmt.Sprintf("it has a character %q", part[i:i+1]), form)
			}
		}
	}
	return nil
}

func keyByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._@:+=-", c) >= 0
}
