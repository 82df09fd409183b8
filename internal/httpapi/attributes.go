package httpapi

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

const (
	maxAttributes     = 64
	maxAttributeName  = 64
	maxAttributeValue = 1024
)

// attributes are what rules look at by name.
type attributes map[string]attribute

// Schema implements huma.SchemaProvider.
func (attributes) Schema(huma.Registry) *huma.Schema {
	most, longest := maxAttributes, maxAttributeValue
	s := &huma.Schema{
		Type: huma.TypeObject, MaxProperties: &most,
		AdditionalProperties: &huma.Schema{OneOf: []*huma.Schema{
			{Type: huma.TypeString, MaxLength: &longest}, {Type: huma.TypeNumber}, {Type: huma.TypeBoolean},
		}},
	}
	s.PrecomputeMessages()
	return s
}

// An attribute is a string, a number or a boolean, as text. Equal numbers are equal texts, however they were written.
type attribute string

// UnmarshalJSON implements json.Unmarshaler.
func (a *attribute) UnmarshalJSON(b []byte) error {
	switch {
	case len(b) == 0:
	case b[0] == '"':
		var s string
		err := json.Unmarshal(b, &s)
		*a = attribute(s)
		return err
	case b[0] == 't', b[0] == 'f':
		*a = attribute(b)
		return nil
	case b[0] == '-', '0' <= b[0] && b[0] <= '9':
		text, err := canonicalNumber(string(b))
		*a = attribute(text)
		return err
	}
	return errors.New("must be a string, a number or true or false")
}

// canonicalNumber keeps a whole number digit by digit, since it may be somebody's id and larger than a float holds. Others are
// the shortest text that reads as the same float, without an exponent as long as that is readable.
func canonicalNumber(s string) (string, error) {
	if !strings.ContainsAny(s, ".eE") {
		if s == "-0" {
			return "0", nil
		}
		if len(s) > maxAttributeValue {
			return "", errors.New("has too many digits")
		}
		return s, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return "", errors.New("is too large")
	}
	if f == 0 {
		return "0", nil // not -0
	}
	if a := math.Abs(f); a >= 1e21 || a < 1e-6 {
		return strconv.FormatFloat(f, 'e', -1, 64), nil
	}
	return strconv.FormatFloat(f, 'f', -1, 64), nil
}
