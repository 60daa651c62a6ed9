package file_test

import (
	"bytes"
	"testing"

	"github.com/leaderrun/leaderrun/backends/file"
)

func FuzzDecode(f *testing.F) {
	for _, doc := range []string{"", `{"token":7}`, "\n\n", " "} {
		data, err := file.Encode(file.LeaseKind, 12, 345, []byte(doc))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
		f.Add(append(data, ' '))
	}
	f.Add([]byte{})
	f.Add([]byte("leaderrun-lease 2 x\n"))
	f.Add([]byte("leaderrun-lease 1 serial=1 inode=1 length=-1 sum=00000000\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		again, err := file.DecodeEncode(file.LeaseKind, data)
		if err == nil && !bytes.Equal(again, data) {
			t.Fatalf("%q is read as what is written as %q", data, again)
		}
	})
}

// Every single changed byte and every length but the whole is refused.
func TestDecodeRefusesDamage(t *testing.T) {
	whole, err := file.Encode(file.LeaseKind, 3, 4, []byte(`{"token":7}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(whole) != file.BlockSize {
		t.Fatalf("%d bytes, want %d", len(whole), file.BlockSize)
	}
	if _, err := file.DecodeEncode(file.LeaseKind, whole); err != nil {
		t.Fatalf("the whole = %v", err)
	}
	for i := range whole {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 1 << (i % 8)
		if _, err := file.DecodeEncode(file.LeaseKind, damaged); err == nil {
			t.Fatalf("byte %d changed to %q: accepted", i, damaged[i])
		}
		if _, err := file.DecodeEncode(file.LeaseKind, whole[:i]); err == nil {
			t.Fatalf("the first %d bytes: accepted", i)
		}
	}
	if _, err := file.Encode(file.LeaseKind, 1, 1, make([]byte, file.BlockSize)); err == nil {
		t.Fatalf("a document that does not fit: accepted")
	}
}
