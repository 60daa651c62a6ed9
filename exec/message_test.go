package exec

import (
	"bytes"
	"reflect"
	"testing"
)

func sample() message {
	return message{verb: doArm, token: 7, deadline: Deadline{1, 2, 3}, number: -4, status: 5, files: 2, text: "/bin/x",
		blob: []byte("secret"), args: []string{"x", "", "y"}, env: []string{"A=1"}, ignore: []string{"\x01"}}
}

func TestMessage(t *testing.T) {
	for _, m := range []message{sample(), {verb: didGo}} {
		stream := m.encode(nil)
		stream = m.encode(stream)
		for range 2 {
			body, rest, err := frame(stream)
			if err != nil || body == nil {
				t.Fatalf("frame = %v, %v", body, err)
			}
			got, err := decode(body)
			if err != nil || !reflect.DeepEqual(got, m) {
				t.Fatalf("decode = %+v, %v; want %+v", got, err, m)
			}
			stream = rest
		}
		if len(stream) != 0 {
			t.Fatalf("%d bytes are left over", len(stream))
		}
	}
}

// A prefix of a message is no message yet, and a shorter body is a bad one.
func TestMessageCut(t *testing.T) {
	m := sample()
	whole := m.encode(nil)
	for n := range len(whole) {
		if body, _, err := frame(whole[:n]); body != nil || err != nil {
			t.Fatalf("frame of %d bytes = %v, %v; want none yet", n, body, err)
		}
		if n > 4 {
			if _, err := decode(whole[4:n]); err == nil {
				t.Fatalf("decode of %d bytes = nil, want an error", n-4)
			}
		}
	}
	if _, err := decode(append(whole[4:], 0)); err == nil {
		t.Fatal("decode with a byte too many = nil, want an error")
	}
	if _, _, err := frame([]byte{255, 255, 255, 255, 1}); err == nil {
		t.Fatal("frame of 4 GiB = nil, want an error")
	}
}

// Whatever the bytes, decoding ends, and what it accepts is what encoding writes.
func FuzzDecode(f *testing.F) {
	m := sample()
	f.Add(m.encode(nil)[4:])
	f.Add([]byte{1})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := decode(body)
		if err != nil {
			return
		}
		again, err := decode(m.encode(nil)[4:])
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("decode(encode) = %+v, %v; want %+v", again, err, m)
		}
	})
}

// Whatever the split, a stream gives the same messages.
func FuzzFrame(f *testing.F) {
	m := sample()
	f.Add(m.encode(m.encode(nil)), 3)
	f.Fuzz(func(t *testing.T, stream []byte, cut int) {
		var whole [][]byte
		rest := stream
		for {
			body, r, err := frame(rest)
			if err != nil || body == nil {
				break
			}
			whole, rest = append(whole, body), r
		}
		if cut < 0 || cut > len(stream) {
			return
		}
		var got [][]byte
		pending := append([]byte(nil), stream[:cut]...)
		for i := 0; i < 2; i++ {
			for {
				body, r, err := frame(pending)
				if err != nil || body == nil {
					break
				}
				got, pending = append(got, append([]byte(nil), body...)), r
			}
			if i == 0 {
				pending = append(pending, stream[cut:]...)
			}
		}
		if len(got) != len(whole) {
			t.Fatalf("%d messages, want %d", len(got), len(whole))
		}
		for i := range got {
			if !bytes.Equal(got[i], whole[i]) {
				t.Fatalf("message %d is %q, want %q", i, got[i], whole[i])
			}
		}
	})
}
