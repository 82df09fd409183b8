package captcha

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	altcha "github.com/altcha-org/altcha-lib-go"
)

// maxSolution is the longest token of a proof of work that is looked at. The widget's have some 450 characters.
const maxSolution = 1024

// A solution is what a token says; nothing of it is known to be true.
type solution struct {
	payload altcha.Payload
	purpose string
	subject string // as proofKeys.subject
	risk    int
	expires int64 // Unix seconds
}

// salts are exactly those that Challenge makes. A salt that says the same in another way is not ours: where it ends decides which digits are
// the number's, and a solution whose digits move over into expires would live for ever (CVE-2025-68113). So it ends with "&".
var salts = regexp.MustCompile(`^[0-9a-f]{24}\?expires=([0-9]{1,11})&p=([a-z0-9-]{1,32})&r=([0-4])&s=([A-Za-z0-9_-]{22})&$`)

// decodeSolution reads a token: base64 of a JSON object. It reports whether the token can be a solution of a challenge of ours.
func decodeSolution(token string) (s solution, ok bool) {
	if token == "" || len(token) > maxSolution || strings.ContainsAny(token, "\r\n") {
		return s, false
	}
	text, err := base64.StdEncoding.DecodeString(token)
	if err != nil || json.Unmarshal(text, &s.payload) != nil || s.payload.Algorithm != string(altcha.SHA256) || s.payload.Number < 0 {
		return s, false
	}
	said := salts.FindStringSubmatch(s.payload.Salt)
	if said == nil {
		return s, false
	}
	s.expires, _ = strconv.ParseInt(said[1], 10, 64) // digits, and few of them
	s.purpose, s.subject = said[2], said[4]
	s.risk = int(said[3][0] - '0')
	return s, true
}
