package memory

import (
	"encoding/json"
	"maps"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// asStored returns what would be read back if r were stored as its document. The common case does without the
// document: a simulation writes millions of records.
func asStored(r backends.Record) (*backends.Record, error) {
	if r.Token <= 0 || r.TTL <= 0 || r.TTL > backends.MaxTTL || r.Owe < 0 || r.Owe > 2*backends.MaxTTL {
		doc, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		return backends.ParseRecord(doc)
	}
	r.TTL, r.Owe = roundUp(r.TTL), roundUp(r.Owe)
	r.Since = r.Since.Round(0) // a document holds no monotonic reading
	return clone(&r), nil
}

func roundUp(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

func clone(r *backends.Record) *backends.Record {
	if r == nil {
		return nil
	}
	c := *r
	c.Extra = maps.Clone(r.Extra) // nobody writes into a field's bytes
	return &c
}
