package firewall

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidegate/tidegate/admission/rules"
)

// The script of a file is available to its caller.
func TestScriptOfAFile(t *testing.T) {
	for text, want := range map[string]Script{
		"":                                 {},
		"bans: {per_minute: 5}":            {PerMinute: 5, Widest4: 24, Widest6: 48},
		"bans: {run: [/bin/ban, -w, a b]}": {Argv: []string{"/bin/ban", "-w", "a b"}, PerMinute: 60, Widest4: 24, Widest6: 48},
		"bans: {run: [/bin/ban], per_minute: 1, widest_v4: 16, widest_v6: 32}": {
			Argv: []string{"/bin/ban"}, PerMinute: 1, Widest4: 16, Widest6: 32,
		},
		"bans: {allow: us, run: [/bin/ban]}\nlists: {us: {values: [ann]}}": {
			Argv: []string{"/bin/ban"}, PerMinute: 60, Widest4: 24, Widest6: 48,
		},
	} {
		set, err := rules.Parse("test.yaml", []byte("version: 1\nrules: [{name: r, subject: user, limit: 1, window: 1s}]\n"+text), Section)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, scriptOf(set)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	if script := scriptOf(rules.Default()); len(script.Argv) > 0 {
		t.Errorf("by default %v is run", script)
	}
}

// Each error has its position and says what would be right.
func TestWrongScripts(t *testing.T) {
	const rule = "version: 1\nrules:\n  - name: a\n    subject: user\n    limit: 1\n    window: 1s\n"
	for _, c := range []struct{ src, want string }{
		{rule + "bans: {run: /usr/local/bin/block-ip}", `test.yaml:7:13: run should be a list, here is "/usr/local/bin/block-ip"`},
		{rule + "bans: {run: [block-ip]}", `test.yaml:7:14: run should begin with the absolute path of a program, here is "block-ip"`},
		{rule + "bans: {run: [/bin/true, 1]}", `test.yaml:7:25: an argument of run should be a text: put it in quotes, "1"`},
		{rule + "bans: {per_minute: 0}", `test.yaml:7:20: per_minute should be a whole number from 1 to 100000, here is "0"`},
		{rule + "bans: {widest_v4: 7}", `test.yaml:7:19: widest_v4 should be a whole number from 8 to 32, here is "7"`},
		{rule + "bans: {widest_v6: 65}", `test.yaml:7:19: widest_v6 should be a whole number from 16 to 64, here is "65"`},
	} {
		_, err := rules.Parse("test.yaml", []byte(c.src), Section)
		var place *rules.Error
		if !errors.As(err, &place) || place.Error() != c.want {
			t.Errorf("%.200q:\n got %v\nwant %s", c.src, err, c.want)
		}
	}
}
