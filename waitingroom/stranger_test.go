package waitingroom_test

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/waitingroom"
)

// W25: the program of docs/waiting-room, which shares no code with this package, finds a draw right, and one with two places swapped wrong.
func TestAStrangerChecksTheDraw(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(d *waitingroom.Definition) {
			d.Mode, d.StartsAt = waitingroom.ModeDraw, time.Now().Add(time.Minute)
		})
		h.join(people(77)...)
		h.later(61 * time.Second)
		var list bytes.Buffer
		if err := h.rooms.WriteDraw(t.Context(), name, &list); err != nil {
			t.Fatal(err)
		}
		if out, err := verify(t, list.String()); err != nil || strings.Contains(out, "WRONG") {
			t.Errorf("%v:\n%s", err, out)
		}
		lines := strings.SplitAfter(list.String(), "\n")
		lines[20], lines[21] = lines[21], lines[20]
		if out, err := verify(t, strings.Join(lines, "")); err == nil || !strings.Contains(out, "WRONG the root") {
			t.Errorf("two places swapped: %v:\n%s", err, out)
		}
	})
}

func verify(t *testing.T, list string) (string, error) {
	cmd := exec.CommandContext(t.Context(), "python3", "../docs/waiting-room/verify.py")
	cmd.Stdin = strings.NewReader(list)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
