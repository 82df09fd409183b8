package login

import (
	"encoding/base64"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"
)

func testKeys(t testing.TB) *keyring {
	k, err := newKeyring("test", []byte("a secret of the tests"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// What is signed is read as it was written; whatever is not signed is nothing.
func FuzzParseAttempt(f *testing.F) {
	k := testKeys(f)
	for _, id := range []attemptID{
		{},
		{at: 1, factor: "password", ip: netip.MustParseAddr("192.0.2.1"), byToken: true, device: "twelve bytes"},
		{at: 1 << 50, factor: "otp", ip: netip.MustParseAddr("2001:db8::1"), inLocal: true, renew: true},
	} {
		if !id.ip.IsValid() {
			id.ip = netip.MustParseAddr("::")
		}
		token := k.attemptToken(&id)
		if got, err := k.parseAttempt(token); err != nil || *got != id {
			f.Fatalf("%+v became %+v, %v", id, got, err)
		}
		f.Add(token)
	}
	f.Add(k.deviceToken("twelve bytes", digest{}, "password", time.Unix(1, 0)))
	f.Fuzz(func(_ *testing.T, token string) {
		_, _ = k.parseAttempt(token)
		_, _, _ = k.parseDevice(token, digest{}, "password")
		// A holder of the secret may sign any text, including one with another meaning in another version.
		if b, err := base64.RawURLEncoding.DecodeString(token); err == nil {
			signed := k.sign(b[:len(b):len(b)])
			_, _ = k.parseAttempt(signed)
			_, _, _ = k.parseDevice(signed, digest{}, "password")
		}
	})
}

func FuzzDecodeState(f *testing.F) {
	f.Add("", byte(0))
	f.Add("\x00", byte(2))
	f.Add("\x01aaaabbbbbbbbccccdddddddd", byte(0))
	f.Add("\x00aaaaaaaabbbbbb\x01", byte(2))
	f.Add("\xff", byte(1))
	rs := newRuleSet(builtIn(), time.Hour)
	f.Fuzz(func(t *testing.T, text string, kind byte) {
		k := kindOfByte(kind)
		s, err := decodeState(k, text)
		if (s == nil) == (err == nil) {
			t.Fatal(s, err)
		}
		if err != nil {
			return
		}
		states := [kinds]*state{}
		states[k] = s
		if states[byIP] == nil {
			states[byIP] = &state{}
		}
		rs.ruleStates(&attemptState{of: states}, 1<<50)
	})
}

func kindOfByte(b byte) kind { return kind(b) % kinds }

func FuzzDecodeReply(f *testing.F) {
	rs := newRuleSet(builtIn(), time.Hour)
	be := binary.BigEndian
	ordinary := append([]byte{byte(deny), 1}, make([]byte, 8+8+8+4)...) // but for the number of penalties
	be.PutUint32(ordinary[2:], rs.rules[0].id)
	begun := append(be.AppendUint32(nil, rs.rules[1].id), make([]byte, 8+4)...)
	f.Add(string(append(ordinary, 0, 0)), byte(0))
	f.Add(string(append(append(ordinary, 0, 1), begun...)), byte(3))
	f.Fuzz(func(t *testing.T, text string, do byte) {
		re, err := decodeReply(text, &call{rules: rs, op: op(do % 4)})
		if err != nil {
			return
		}
		if re.action > deny || re.outcome > settledLate || re.rule >= len(rs.rules) || re.shadow >= len(rs.rules) || re.rule < -1 {
			t.Errorf("%+v", re)
		}
		for _, p := range re.penalties {
			if p.rule < 0 || p.rule >= len(rs.rules) {
				t.Errorf("%+v", p)
			}
		}
	})
	if _, err := decodeReply(int64(1), &call{rules: rs}); err == nil {
		f.Error("a number is a reply")
	}
}
