package waitingroom_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/waitingroom"
)

// FuzzVerifyDraw: a list that passes is one that WriteDraw can have written: no other order, secret or length of it passes.
func FuzzVerifyDraw(f *testing.F) {
	list, err := os.ReadFile("testdata/draw.csv")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(list))
	f.Add(strings.Replace(string(list), "n,5", "n,9223372036854775807", 1))
	f.Add(strings.Replace(string(list), "n,5", "n,0", 1))
	f.Add(strings.Replace(string(list), "\n0,", "\n-1,", 1))
	f.Add("room,\ncommitment,\nsecret,\nroot,\nseed,\nn,\n\n,,,")
	f.Add("")
	f.Fuzz(func(t *testing.T, list string) {
		drawn, err := waitingroom.VerifyDraw(strings.NewReader(list))
		if err != nil {
			return
		}
		lines := strings.Split(strings.TrimRight(list, "\n"), "\n")
		if drawn.N != int64(len(lines)-7) && len(lines) >= 7 {
			t.Errorf("%d places in %d lines", drawn.N, len(lines))
		}
		if drawn.N > 1 {
			lines[7], lines[8] = lines[8], lines[7]
			if _, err := waitingroom.VerifyDraw(strings.NewReader(strings.Join(lines, "\n"))); err == nil {
				t.Error("the list passes with its first places swapped")
			}
		}
	})
}

// FuzzPlaceToken: only texts that the service made are tokens, and they name the place that they were made for.
func FuzzPlaceToken(f *testing.F) {
	s := waitingroom.New(nil, waitingroom.Options{Secret: bytes.Repeat([]byte("s"), 32)})
	sample := waitingroom.TokenOf{Seq: 7, JoinedAt: 1_760_000_000_000, Quantity: 2, Lane: "members", LaneSeq: 3, Subject: "subject"}
	f.Add("shoes", int64(7), int64(1_760_000_000_000), uint32(2), "members", int64(3), "subject", s.PlaceToken("shoes", sample), uint16(9))
	f.Add("", int64(-1), int64(0), uint32(0), "", int64(-1), "", "", uint16(0))
	f.Add("shoes", int64(1), int64(1), uint32(1), "", int64(1), "s\n", "AAAA\r\n", uint16(65535))
	f.Fuzz(func(t *testing.T, room string, seq, joinedAt int64, quantity uint32, lane string, laneSeq int64, subject, token string, at uint16) {
		of := waitingroom.TokenOf{Seq: seq, JoinedAt: joinedAt, Quantity: quantity, Lane: lane[:min(len(lane), 64)], LaneSeq: laneSeq, Subject: subject}
		made := s.PlaceToken(room, of)
		if got := s.ParseToken(room, made); subject != "" && got != of {
			t.Errorf("%q is a token of %v", made, got)
		}
		if got := s.ParseToken(room, token); got != (waitingroom.TokenOf{}) && token != s.PlaceToken(room, got) {
			t.Errorf("%q is a token of %v", token, got)
		}
		if s.ParseToken(room+"x", made) != (waitingroom.TokenOf{}) {
			t.Errorf("%q is a token of another room", made)
		}
		broken := []byte(made)
		if i := int(at) % (len(broken) - 1); broken[i] == 'A' { // the last character has bits without a meaning
			broken[i] = 'B'
		} else {
			broken[i] = 'A'
		}
		if got := s.ParseToken(room, string(broken)); got != (waitingroom.TokenOf{}) {
			t.Errorf("%q is a token of %v", broken, got)
		}
	})
}
