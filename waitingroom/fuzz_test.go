package waitingroom_test

import (
	"bytes"
	"testing"

	"github.com/tidegate/tidegate/waitingroom"
)

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
