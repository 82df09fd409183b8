package rehearseroom

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/httpapi/rooms"
	"github.com/tidegate/tidegate/internal/judge"
	"github.com/tidegate/tidegate/orders"
)

// flawless returns the evidence of a crowd of whom the first 40 are drawn and the other 40 come later; the first two of each buy.
func flawless() *evidence {
	const drawn, all = 40, 80
	start := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	c := &evidence{
		Report: &Report{}, o: Options{Room: "r", Sale: "s", Stock: 4}, list: []byte("index,number,subject,position\n"),
		checks: map[string][]orders.Check{"/v1/rooms/r/verify": {{Invariant: "numbers", OK: true}}, "/v1/sales/s/verify": {{Invariant: "I1", OK: true}}},
	}
	c.after.Joined, c.after.Draw, c.after.Phase = all, &rooms.DrawView{N: new(int64(drawn))}, "exhausted"
	for i := range all {
		at := start.Add(time.Duration(i) * time.Second)
		v := &visitor{
			user: fmt.Sprint("user-", i), late: i >= drawn, reloads: true, hangsUp: true, sniped: http.StatusForbidden, asked: at, joined: at.Add(time.Millisecond),
			numbers: map[int64]bool{int64(i + 1): true}, positions: []int64{int64(i + 1)}, final: "turned_away", waited: start.Add(time.Hour), ended: start.Add(time.Hour + time.Second),
		}
		if i < drawn { // by turns from the front and from the back, so that the time of joining does not matter
			v.positions[0] = int64(i/2 + 1)
			if i%2 == 1 {
				v.positions[0] = int64(drawn - i/2)
			}
			row := fmt.Sprintf("%d,%d,%x", i, i+1, i)
			leaf := sha256.Sum256([]byte("\x00r\n" + strings.ReplaceAll(row, ",", "\n")))
			v.receipt = "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"leaf":"`+hex.EncodeToString(leaf[:])+`"}`)) + ".e30"
			c.list = fmt.Appendf(c.list, "%s,%d\n", row, v.positions[0])
		}
		switch i % drawn {
		case 0, 1:
			v.certain, v.claimed, v.inTime, v.claimCode, v.ordered, v.twice, v.final = true, true, true, http.StatusOK, true, http.StatusConflict, "done"
		case 2:
			v.silent, v.turnUntil, v.lapsed, v.final = true, at, at, "lapsed"
		}
		c.crowd = append(c.crowd, v)
	}
	return c
}

// TestJudge spoils the evidence of a faultless run, and expects the breach of one property.
func TestJudge(t *testing.T) {
	verdicts := func(c *evidence) map[string]judge.Verdict {
		c.judge()
		found := make(map[string]judge.Verdict)
		for _, f := range c.Findings {
			found[f.Invariant] = f.Verdict
		}
		return found
	}
	for property, verdict := range verdicts(flawless()) {
		if verdict != judge.OK && property != "W25" { // the list was not drawn
			t.Errorf("%s of a faultless run: %s", property, verdict)
		}
	}
	for property, spoil := range map[string]func(c *evidence){
		"W1":  func(c *evidence) { c.after.Joined++ },
		"W2":  func(c *evidence) { c.crowd[5].numbers[77] = true },
		"W3":  func(c *evidence) { c.crowd[5].rose = 1 },
		"W4":  func(c *evidence) { c.crowd[50].positions[0]++ },
		"W5":  func(c *evidence) { c.crowd[50].positions[0], c.crowd[51].positions[0] = 52, 51 },
		"W7":  func(c *evidence) { c.crowd[0].numbers[77] = true },
		"W8":  func(c *evidence) { c.crowd[3].late = true },
		"W9":  func(c *evidence) { c.crowd[3].early = true },
		"W14": func(c *evidence) { c.crowd[2].turnUntil = c.crowd[2].lapsed.Add(2 * time.Second) },
		"W17": func(c *evidence) { c.crowd[0].claimed = false },
		"W18": func(c *evidence) { c.crowd[9].waited = c.crowd[9].ended.Add(2 * time.Second) },
		"W19": func(c *evidence) { c.crowd[0].ordered = false },
		"W24": func(c *evidence) { c.crowd[9].sniped = http.StatusAccepted },
		"W26": func(c *evidence) { c.crowd[9].receipt = c.crowd[60].receipt },
		"W27": func(c *evidence) {
			for i := range 40 {
				c.crowd[i].positions[0] = int64(i + 1)
			}
		},
		"W29": func(c *evidence) { c.crowd[0].twice = http.StatusAccepted },
		"W32": func(c *evidence) { c.checks["/v1/rooms/r/verify"][0].OK = false },
		"I1":  func(c *evidence) { c.checks["/v1/sales/s/verify"][0].OK = false },
		"I3":  func(c *evidence) { c.after.Phase = "serving" },
	} {
		c := flawless()
		spoil(c)
		if got := verdicts(c)[property]; got != judge.Breach || c.OK() {
			t.Errorf("%s: %s, the report is ok: %t", property, got, c.OK())
		}
	}
	c := flawless()
	c.o.ClockJumps, c.crowd[3].early, c.crowd[0].claimed = true, true, false
	for property, verdict := range verdicts(c) {
		if slices.Contains(byClock, property) != (verdict == judge.NotJudged) && property != "W25" {
			t.Errorf("%s of a run in which the database's clock jumped: %s", property, verdict)
		}
	}
}
