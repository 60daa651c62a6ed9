package exec

import (
	"encoding/binary"
	"errors"

	"github.com/leaderrun/leaderrun/boottime"
)

// maxMessage is the greatest length of a message. Linux takes at most 6 MiB of arguments and environment, whatever the
// stack limit (fs/exec.c, bprm_stack_limits).
const maxMessage = 16 << 20

// maxFiles is the greatest number of descriptors in one message.
const maxFiles = 16

var errMessage = errors.New("exec: malformed message")

// verb is what a message asks or tells.
type verb byte

const (
	// From leaderrun to the guard.
	doPrepare verb = iota + 1
	doArm
	doBegin
	doExtend
	doSignal
	doKill
	doDisarm

	// From the guard to leaderrun.
	didReady
	didFail // the guard cannot do its work: text says why
	didStart
	didNotStart
	didExit
	didLapse
	didRefuse
	didAck
	didGo
	didLeave // the guard hands the term back now; it answers nothing any more
)

// message is the one shape of everything that leaderrun and guard say to each other. Most fields are empty in most.
type message struct {
	verb     verb
	token    int64
	deadline Deadline
	number   int64    // a signal, a process, a process group, an errno
	status   uint32   // a wait status
	files    int      // descriptors that came with it
	text     string   // a path, a reason
	blob     []byte   // what Term.Crash holds
	args     []string // of the command
	env      []string // of the command
	ignore   []string // one byte each: signals that the child is to ignore
}

// encode appends m to b, with its length in front (32 bits, little endian).
func (m *message) encode(b []byte) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0, byte(m.verb))
	for _, n := range []int64{m.token, int64(m.deadline.Term), int64(m.deadline.Kill), int64(m.deadline.End), m.number,
		int64(m.status), int64(m.files)} {
		b = binary.AppendVarint(b, n)
	}
	b = appendBytes(b, m.text)
	b = appendBytes(b, m.blob)
	for _, list := range [][]string{m.args, m.env, m.ignore} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, s := range list {
			b = appendBytes(b, s)
		}
	}
	binary.LittleEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

func appendBytes[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// frame splits the first message off b. It returns nil and b while that is not complete.
func frame(b []byte) (body, rest []byte, err error) {
	if len(b) < 4 {
		return nil, b, nil
	}
	n := binary.LittleEndian.Uint32(b)
	if n == 0 || n > maxMessage {
		return nil, b, errMessage
	}
	if uint32(len(b)-4) < n {
		return nil, b, nil
	}
	return b[4 : 4+n], b[4+n:], nil
}

// decode reads the body of a message. The result shares no memory with it.
func decode(body []byte) (message, error) {
	if len(body) == 0 {
		return message{}, errMessage
	}
	d := decoder{b: body[1:]}
	m := message{verb: verb(body[0])}
	m.token = d.varint()
	m.deadline = Deadline{boottime.Time(d.varint()), boottime.Time(d.varint()), boottime.Time(d.varint())}
	m.number = d.varint()
	m.status = uint32(d.varint())
	files := d.varint()
	m.text = string(d.bytes())
	if blob := d.bytes(); len(blob) > 0 {
		m.blob = append([]byte(nil), blob...)
	}
	m.args = d.list()
	m.env = d.list()
	m.ignore = d.list()
	if d.bad || len(d.b) > 0 || files < 0 || files > maxFiles {
		return message{}, errMessage
	}
	m.files = int(files)
	return m, nil
}

// decoder reads fields one after the other; after the first bad one all are empty.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.b, d.bad = nil, true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) length() int {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > uint64(len(d.b)-n) { // each element takes a byte at least, so this bounds what is allocated
		d.b, d.bad = nil, true
		return 0
	}
	d.b = d.b[n:]
	return int(v)
}

func (d *decoder) bytes() []byte {
	n := d.length()
	s := d.b[:n]
	d.b = d.b[n:]
	return s
}

func (d *decoder) list() []string {
	n := d.length()
	if n == 0 {
		return nil
	}
	list := make([]string, 0, min(n, 1024))
	for range n {
		if d.bad {
			return nil
		}
		list = append(list, string(d.bytes()))
	}
	return list
}
