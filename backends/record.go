package backends

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// FormatVersion is the record format that this code writes and the newest that it understands. A record whose minv is
// above it was written by a later leaderrun under rules that this one does not know.
const FormatVersion = 1

// MaxTTL is the greatest T there is; what is waited for a record that cannot be read.
const MaxTTL = 5 * time.Minute

// Record is the one document per key. It outlives entries, and nothing of leaderrun ever deletes it: what a
// predecessor is owed would be forgotten with it. Token, TTL, Owe, Released and MinV never change their meaning.
type Record struct {
	V    int `json:"v"`    // format of the writer
	MinV int `json:"minv"` // oldest format that may act on it

	ID   string `json:"id"`
	Host string `json:"host"`
	PID  int    `json:"pid"`
	Boot string `json:"boot"`

	Token    int64         `json:"token"`    // of the term that wrote it
	TTL      time.Duration `json:"-"`        // its T; "ttl", in milliseconds
	Owe      time.Duration `json:"-"`        // what a successor has to wait from when it received this version; "owe", in milliseconds, rounded up
	Beat     int64         `json:"beat"`     // rises with every attempt
	Since    time.Time     `json:"since"`    // wall clock at the start of the term; for people only
	Released bool          `json:"released"` // the term ended and its tree was confirmed dead

	// Extra holds fields of later formats, kept when the record is written again.
	Extra map[string]json.RawMessage `json:"-"`
}

// MarshalJSON writes r with durations in whole milliseconds, rounded up, and the Extra fields.
func (r Record) MarshalJSON() ([]byte, error) {
	type noMethods Record
	known, err := json.Marshal(struct {
		noMethods
		TTLMillis int64 `json:"ttl"`
		OweMillis int64 `json:"owe"`
	}{noMethods(r), millis(r.TTL), millis(r.Owe)})
	if err != nil || len(r.Extra) == 0 {
		return known, err
	}
	all := maps.Clone(r.Extra)
	var own map[string]json.RawMessage
	if err := json.Unmarshal(known, &own); err != nil {
		return nil, err
	}
	maps.Copy(all, own)
	return json.Marshal(all)
}

// ParseRecord reads a record. It refuses what a driver must report as Unreadable: bytes that are no such document, no
// positive token, or durations out of range. A record of a later format is read as far as it is understood.
func ParseRecord(data []byte) (*Record, error) {
	type noMethods Record
	var in struct {
		noMethods
		TTLMillis *int64 `json:"ttl"`
		OweMillis *int64 `json:"owe"`
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&in); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	if dec.More() {
		return nil, errors.New("record: more than one document")
	}
	r := Record(in.noMethods)
	switch {
	case r.Token <= 0:
		return nil, fmt.Errorf("record: token %d is not positive", r.Token)
	case in.TTLMillis == nil || *in.TTLMillis <= 0 || *in.TTLMillis > MaxTTL.Milliseconds():
		return nil, errors.New("record: ttl is missing or out of range")
	case in.OweMillis == nil || *in.OweMillis < 0 || *in.OweMillis > 2*MaxTTL.Milliseconds():
		return nil, errors.New("record: owe is missing or out of range")
	}
	r.TTL = time.Duration(*in.TTLMillis) * time.Millisecond
	r.Owe = time.Duration(*in.OweMillis) * time.Millisecond

	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	maps.DeleteFunc(all, func(name string, _ json.RawMessage) bool { return knownField(name) })
	if len(all) > 0 {
		r.Extra = all
	}
	return &r, nil
}

// knownField says whether encoding/json would take a field of this name for one of Record's, whatever its case: as an
// extra field it could overrule the real one when it is read again.
func knownField(name string) bool {
	known := []string{"v", "minv", "id", "host", "pid", "boot", "token", "ttl", "owe", "beat", "since", "released"}
	return slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) })
}

// Mine reports whether r was written by the term with this token.
func (r *Record) Mine(token int64) bool { return r != nil && r.Token == token }

func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
