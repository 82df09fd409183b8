package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the commands send.
func TestRoomCommands(t *testing.T) {
	const room = `{"room":"shoes","phase":"held","claim_ms":90000}`
	env, asked := internalFake(t, map[string]string{
		"PUT /v1/rooms/shoes": room, "POST /v1/rooms/shoes/hold": room, "POST /v1/rooms/shoes/advance": room, "POST /v1/rooms/shoes/message": room,
		"POST /v1/rooms/shoes/close": room, "POST /v1/rooms/shoes/beacon": room,
		"GET /v1/rooms/shoes/places?limit=1000&user=ann":  `{"items":[{"number":3,"state":"left"},{"number":9,"state":"barred","position":4,"steps":[{"at":"t1","step":"joined"},{"at":"t2","step":"barred","by":"bob","cause":"bots"}]}],"next_cursor":null}`,
		"GET /v1/rooms/shoes/places?limit=100&user=ann+b": `{"items":[],"next_cursor":null}`,
	})
	round := filepath.Join(t.TempDir(), "round.json")
	if err := os.WriteFile(round, []byte(`{"round":1000,"randomness":"fe29","signature":"b446"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string][2]string{
		"beacon shoes --file " + round:                                             {`POST /v1/rooms/shoes/beacon {"round":1000,"signature":"b446"}`, "phase  held"},
		"put shoes --mode draw --beacon drand --starts 2099-01-02T00:00:00Z --yes": {`PUT /v1/rooms/shoes {"mode":"draw","gather_at":"2099-01-02T00:00:00Z","starts_at":"2099-01-02T00:00:00Z","claim_ms":90000,"pass_ms":600000,"bound":"strict","requires_user":true,"beacon":"drand"}`, "phase  held"},
		"put shoes --sale s --item i --mode draw --gather 2099-01-01T00:00:00Z --starts 2099-01-02T00:00:00Z --rate 600 --claim 1m --yes": {
			`PUT /v1/rooms/shoes {"sale":"s","item":"i","mode":"draw","gather_at":"2099-01-01T00:00:00Z","starts_at":"2099-01-02T00:00:00Z","rate_per_min":600,"claim_ms":60000,"pass_ms":600000,"bound":"strict","requires_user":true}`,
			"phase  held",
		},
		"hold shoes":                              {"POST /v1/rooms/shoes/hold", "phase  held"},
		"advance shoes 5":                         {`POST /v1/rooms/shoes/advance {"by":5}`, "claim  1m30s"},
		"message shoes So|long":                   {`POST /v1/rooms/shoes/message {"message":"So long"}`, "room   shoes"},
		"close shoes --yes":                       {"POST /v1/rooms/shoes/close", "phase  held"},
		"hold shoes --reason so|slow":             {`POST /v1/rooms/shoes/hold {"reason":"so slow"}`, "phase  held"},
		"advance shoes 5 --reason x":              {`POST /v1/rooms/shoes/advance {"by":5,"reason":"x"}`, "phase  held"},
		"message shoes Hi --reason x":             {`POST /v1/rooms/shoes/message {"message":"Hi","reason":"x"}`, "phase  held"},
		"close shoes --yes --reason x":            {`POST /v1/rooms/shoes/close {"reason":"x"}`, "phase  held"},
		"beacon shoes --reason x --file " + round: {`POST /v1/rooms/shoes/beacon {"round":1000,"signature":"b446","reason":"x"}`, "phase  held"},
		"explain shoes ann":                       {"GET /v1/rooms/shoes/places?limit=1000&user=ann", "9       -     4         -         barred  t1  joined  -    -\n9       -     4         -         barred  t2  barred  bob  bots"},
		"places shoes --user ann|b":               {"GET /v1/rooms/shoes/places?limit=100&user=ann+b", "none"},
	} {
		*asked = nil
		words := []string{"rooms"}
		for word := range strings.FieldsSeq(args) {
			words = append(words, strings.ReplaceAll(word, "|", " "))
		}
		out, err := call(t, env, words...)
		if err != nil || len(*asked) != 1 || strings.TrimSpace((*asked)[0]) != want[0] || !strings.Contains(out, want[1]) {
			t.Errorf("%s: %v %q\n%s", args, err, *asked, out)
		}
	}
	for what, text := range map[string]string{"round or signature is missing": "{}", "invalid character": "<html>", "no such file": ""} {
		if err := os.WriteFile(round, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if text == "" {
			round += "x"
		}
		if out, err := call(t, env, "rooms", "beacon", "shoes", "--file", round); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v %s", text, err, out)
		}
	}
}

// drawList is the list of a draw of three, as a server wrote it.
const drawList = `room,three
commitment,560984ea4cb0f5d0623df5fc666ffafba66f6dd7301ae1a012ed76e3a16e07aa
secret,0d0601125a6174c2f4277ee2d21a51b59d70f504993799e1bd2ca2a090ddf7b2
root,f0a7eb695737fce25c7b5db27c9773f034fc829a03a8aaad192b9c39b5ce0414
seed,02f11cd785fda754afdb47dd8f0fcc9dd970ef7a7374aea4650a79d14c2417b5
n,3
index,subject,joined_ms,position
0,e0c9AWJrVTwhgozCftW1kg,1795411177273,1
1,-9gA9HI7oOdben5rMlU1SA,1795411177286,2
2,AVewiOZBMsN79QeBgWHhFA,1795411177503,3
`

func TestVerifyDraw(t *testing.T) {
	file := filepath.Join(t.TempDir(), "draw.csv")
	verify := func(list string, more ...string) (string, error) {
		t.Helper()
		if err := os.WriteFile(file, []byte(list), 0o600); err != nil {
			t.Fatal(err)
		}
		return call(t, nothing, append([]string{"rooms", "verify-draw", file}, more...)...)
	}
	var commitment string
	for line := range strings.Lines(drawList) {
		if value, ok := strings.CutPrefix(line, "commitment,"); ok {
			commitment = strings.TrimSpace(value)
		}
	}
	if out, err := verify(drawList, "--commitment", commitment); err != nil || !strings.Contains(out, "places      3\n") || !strings.Contains(out, "verified ") {
		t.Errorf("%v %s", err, out)
	}
	for what, list := range map[string]string{
		"and n is":          strings.Replace(drawList, "\n2,", "\n3,", 1),
		"must begin with":   "",
		"the commitment is": strings.Replace(drawList, commitment, strings.Repeat("0", 64), 1),
		"position":          drawList[:len(drawList)-2] + "9\n",
	} {
		if out, err := verify(list); err == nil || strings.Contains(err.Error(), "draw:") {
			t.Errorf("%s: %v %s", what, err, out)
		}
	}
	if _, err := verify(drawList, "--commitment", "00"); err == nil || !strings.Contains(err.Error(), "another draw") {
		t.Error(err)
	}
}
