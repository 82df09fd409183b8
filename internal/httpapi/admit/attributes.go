package admit

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

// attributes are the values that rules refer to by name.
type attributes map[string]attribute

// Schema implements huma.SchemaProvider.
func (attributes) Schema(huma.Registry) *huma.Schema {
	most, longest := maxAttributes, maxAttributeValue
	s := &huma.Schema{
		Type: huma.TypeObject, MaxProperties: &most,
		AdditionalProperties: &huma.Schema{OneOf: []*huma.Schema{
			{Type: huma.TypeString, MaxLength: &longest}, {Type: huma.TypeNumber}, {Type: huma.TypeBoolean},
		}},
		Extensions: map[string]any{"propertyNames": map[string]any{"minLength": 1, "maxLength": maxAttributeName}},
	}
	s.PrecomputeMessages()
	return s
}

// An attribute is a string, a number or a boolean, as text. Equal numbers have equal texts, however they were written.
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

// canonicalNumber keeps integers digit by digit, because they may be ids that are larger than a float64 holds. Other numbers
// become the shortest text that parses as the same float64, with an exponent only for very large or small ones.
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
