package captcha

import (
	"encoding/json"
	"regexp"
	"strconv"

	altcha "github.com/altcha-org/altcha-lib-go"

	"github.com/tidegate/tidegate/internal/keyhash"
)

// maxSolution is the maximum length of a proof-of-work token. Those of the widget have some 450 characters.
const maxSolution = 1024

// A solution is the unverified content of a token.
type solution struct {
	payload altcha.Payload
	purpose string
	subject string // as returned by proofKeys.subject
	risk    int
	expires int64 // Unix seconds
}

// salts matches exactly the salts that Challenge makes. Other spellings are rejected: the end of the salt determines which digits belong
// to the number, and a solution whose digits move over into expires would never expire (CVE-2025-68113). So a salt ends with "&".
var salts = regexp.MustCompile(`^[0-9a-f]{24}\?expires=([0-9]{1,11})&p=([a-z0-9-]{1,32})&r=([0-4])&s=([A-Za-z0-9_-]{22})&$`)

// decodeSolution decodes a token: base64 of a JSON object. ok is false if the token cannot be a solution of our challenges.
func decodeSolution(token string) (s solution, ok bool) {
	if token == "" || len(token) > maxSolution {
		return s, false
	}
	text, err := keyhash.DecodeStd(token)
	if err != nil || json.Unmarshal(text, &s.payload) != nil || s.payload.Algorithm != string(altcha.SHA256) || s.payload.Number < 0 {
		return s, false
	}
	fields := salts.FindStringSubmatch(s.payload.Salt)
	if fields == nil {
		return s, false
	}
	s.expires, _ = strconv.ParseInt(fields[1], 10, 64) // cannot fail: at most 11 digits
	s.purpose, s.subject = fields[2], fields[4]
	s.risk = int(fields[3][0] - '0')
	return s, true
}
