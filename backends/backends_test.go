package backends_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leaderrun/leaderrun/backends"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCheckKey(t *testing.T) {
	for _, key := range []string{
		"/a", "/jobs/billing", "/a/b/c/d", "/A-Z_0.9@x:y+z=1-", "/...", "/.a", "/a.", "/" + strings.Repeat("k", backends.MaxKey-1),
	} {
		if err := backends.CheckKey(key); err != nil {
			t.Errorf("CheckKey(%q) = %v, want nil", key, err)
		}
	}
	for _, key := range []string{
		"", "/", "a", "a/b", "/a/", "//a", "/a//b", "/.", "/..", "/../a", "/a/../b", "/a/.", "/a b", "/a\tb", "/a\n", "/a\x00",
		"/a\x1b[2J", "/é", "/\xff", "/a,b", "/a%2f", "/a\\b", "/a*", "/" + strings.Repeat("k", backends.MaxKey), "/" + strings.Repeat("a/", 3000),
	} {
		err := backends.CheckKey(key)
		if !errors.Is(err, backends.ErrBadKey) {
			t.Errorf("CheckKey(%.20q) = %v, want ErrBadKey", key, err)
			continue
		}
		var hint backends.Hinter
		if !errors.As(err, &hint) || hint.Hint() == "" {
			t.Errorf("CheckKey(%.20q): no hint", key)
		}
		for _, said := range []string{err.Error(), hint.Hint()} {
			if len(said) > 300 || strings.ContainsFunc(said, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd }) {
				t.Errorf("CheckKey(%.20q) says %q, which a terminal would act on", key, said)
			}
		}
	}
}

func TestWithHint(t *testing.T) {
	err := fmt.Errorf("outer: %w", backends.WithHint(fmt.Errorf("inner: %w", backends.ErrDenied), "try that"))
	var hint backends.Hinter
	if !errors.Is(err, backends.ErrDenied) || !errors.As(err, &hint) || hint.Hint() != "try that" || err.Error() != "outer: inner: "+backends.ErrDenied.Error() {
		t.Fatalf("error = %v with hint %v", err, hint)
	}
}

func full() backends.Record {
	return backends.Record{
		V: 1, MinV: 1, ID: "i<d>", Host: "h", PID: 7, Boot: "b", Token: 1<<63 - 1, TTL: backends.MaxTTL, Owe: 2 * backends.MaxTTL,
		Beat: 9, Since: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Released: true,
		Extra: map[string]json.RawMessage{"later": json.RawMessage(`{"a":[1,null]}`), "z": json.RawMessage(`"x"`)},
	}
}

func TestRecordRoundTrip(t *testing.T) {
	for _, want := range []backends.Record{full(), {Token: 1, TTL: time.Millisecond}} {
		doc, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := backends.ParseRecord(doc)
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Fatalf("ParseRecord(%s) = %+v, %v, want %+v", doc, got, err, want)
		}
	}
	// What is waited for is never rounded down.
	doc, err := json.Marshal(backends.Record{Token: 1, TTL: time.Second + 1, Owe: 1})
	if err != nil {
		t.Fatal(err)
	}
	got, err := backends.ParseRecord(doc)
	if err != nil || got.TTL != 1001*time.Millisecond || got.Owe != time.Millisecond {
		t.Fatalf("ParseRecord(%s) = %+v, %v, want durations rounded up", doc, got, err)
	}
	if !got.Mine(1) || got.Mine(2) || (*backends.Record)(nil).Mine(0) {
		t.Fatalf("Mine is wrong")
	}
}

func TestParseRecordRefuses(t *testing.T) {
	for _, doc := range []string{
		``, `null`, `7`, `[]`, `{}`, `{"token":1}`, `{"token":1,"ttl":1}`, `{"token":1,"owe":0}`, `{"token":0,"ttl":1,"owe":0}`,
		`{"token":-1,"ttl":1,"owe":0}`, `{"token":1,"ttl":0,"owe":0}`, `{"token":1,"ttl":300001,"owe":0}`, `{"token":1,"ttl":1,"owe":-1}`,
		`{"token":1,"ttl":1,"owe":600001}`, `{"token":1,"ttl":null,"owe":0}`, `{"token":"1","ttl":1,"owe":0}`, `{"token":1.5,"ttl":1,"owe":0}`,
		`{"token":9223372036854775808,"ttl":1,"owe":0}`, `{"token":1,"ttl":1,"owe":0}{}`, `{"token":1,"ttl":1,"owe":0}}`, `{"token":1,"ttl":1,"owe":0`,
		`{"token":1,"ttl":1,"owe":0,"released":"no"}`,
	} {
		if r, err := backends.ParseRecord([]byte(doc)); err == nil {
			t.Errorf("ParseRecord(%s) = %+v, want an error", doc, r)
		}
	}
}

// No field of a later format can stand for one of ours, in whatever case it is written.
func TestExtraNeverOverrules(t *testing.T) {
	doc := `{"token":5,"ttl":1,"owe":0,"later":1,"TOKEN":5,"to\u212aen":5,"Owe":0}`
	r, err := backends.ParseRecord([]byte(doc))
	if err != nil {
		t.Fatalf("ParseRecord = %v", err)
	}
	r.Token, r.Owe = 6, time.Second
	again, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := backends.ParseRecord(again)
	if err != nil || got.Token != 6 || got.Owe != time.Second || len(got.Extra) != 1 {
		t.Fatalf("ParseRecord(%s) = %+v, %v, want token 6 and one extra field", again, got, err)
	}
}

func FuzzParseRecord(f *testing.F) {
	doc, err := json.Marshal(full())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(doc)
	f.Add([]byte(`{"token":1,"ttl":1000,"owe":0}`))
	f.Add([]byte(`{"token":1,"ttl":1000,"owe":0,"TTL":5,"x":{"y":"\u212a"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := backends.ParseRecord(data)
		if err != nil {
			return
		}
		if r.Token <= 0 || r.TTL <= 0 || r.TTL > backends.MaxTTL || r.Owe < 0 || r.Owe > 2*backends.MaxTTL {
			t.Fatalf("ParseRecord(%q) = %+v, out of range", data, r)
		}
		doc, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("Marshal(%+v) = %v", r, err)
		}
		again, err := backends.ParseRecord(doc)
		if err != nil {
			t.Fatalf("ParseRecord(%s) = %v", doc, err)
		}
		doc2, err := json.Marshal(again)
		if err != nil || string(doc2) != string(doc) || again.Token != r.Token || again.TTL != r.TTL || again.Owe != r.Owe {
			t.Fatalf("%q is read as %+v, and read again as %+v", data, r, again)
		}
	})
}
