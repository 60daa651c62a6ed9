package backends

import "errors"

// The errors that a store tells apart. Drivers wrap them once, with what they were doing: "etcd: write the record: …".
var (
	// ErrLost: the own entry is gone or the record is another's. Definite, from the store itself.
	ErrLost = errors.New("the lease is lost")
	// ErrConflict: the own entry is there, but the record or the queue is not as the write expected.
	ErrConflict = errors.New("the record has changed")
	// ErrUnavailable: no answer, or one that decides nothing. The operation may have taken effect, or may still.
	ErrUnavailable = errors.New("the store is unavailable")
	// ErrDenied: wrong credentials or missing permission. Never retried silently.
	ErrDenied = errors.New("the store denied access")
	// ErrBadKey: the key cannot be used in this store, or something that is not leaderrun's stands in its place.
	ErrBadKey = errors.New("the key cannot be used")
)

// Hinter is an error that knows a cure. The command line prints it on a line of its own.
type Hinter interface {
	error
	Hint() string
}

type hinted struct {
	error
	hint string
}

func (h hinted) Hint() string  { return h.hint }
func (h hinted) Unwrap() error { return h.error }

// WithHint adds a cure to an error, for the person who reads it.
func WithHint(err error, hint string) error { return hinted{err, hint} }
