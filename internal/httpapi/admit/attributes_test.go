package admit

import (
	"encoding/json"
	"testing"
)

func TestAttributeText(t *testing.T) {
	for given, want := range map[string]string{
		`"x"`: "x", `""`: "", `"1.0"`: "1.0", `true`: "true", `false`: "false", `0`: "0", `-0`: "0", `-0.0`: "0", `1`: "1", `1.0`: "1", `1e2`: "100", `0.10`: "0.1",
		`1E-2`: "0.01", `-1.5`: "-1.5", `1e21`: "1e+21", `1e-9`: "1e-09", `12345678901234567890123`: "12345678901234567890123", `"\u00e9"`: "é",
	} {
		var a attribute
		if err := json.Unmarshal([]byte(given), &a); err != nil || string(a) != want {
			t.Errorf("%s: %q %v", given, a, err)
		}
	}
	for _, wrong := range []string{`[]`, `{}`, `1e999`} {
		var a attribute
		if err := json.Unmarshal([]byte(wrong), &a); err == nil {
			t.Errorf("%s: %q", wrong, a)
		}
	}
}
