package main

import (
	"strings"
	"testing"
)

func TestExplain(t *testing.T) {
	const answer = `{"version":"v1","ban":{"kind":"user","value":"ann","until":"2026-11-21T12:00:00Z"},"allowed":"office","rules":[` +
		`{"rule":"free","applies":true,"windows":[{"rule":"free","action":"allow","window_ms":0,"limit":null,"remaining":null,"retry_after_ms":0,"shadow":false}]},` +
		`{"rule":"orders","applies":true,"windows":[{"rule":"orders","action":"deny","window_ms":10000,"limit":5,"remaining":0,"retry_after_ms":2500,"shadow":true},` +
		`{"rule":"orders","action":"allow","window_ms":600000,"limit":null,"remaining":null,"retry_after_ms":0,"shadow":false}]},` +
		`{"rule":"export","applies":false,"why":"route: /export","windows":[]}]}`
	env, asked := internalFake(t, map[string]string{
		"GET /v1/explain?attribute=plan%3Agold&attribute=rows%3A12&cost=2&method=POST&route=%2Fx&user=ann": answer,
		"GET /v1/explain?device=d&ip=192.0.2.1&session=s&tier=gold":                                        `{"version":"v1","rules":[]}`,
	})
	args := strings.Fields("explain --user ann --route /x --method POST --cost 2 --attribute plan:gold --attribute rows:12")
	want := `banned: kind=user until=2026-11-21T12:00:00Z value=ann

never banned: on the list office

RULE    APPLIES             ACTION         LIMIT      WINDOW  REMAINING  RETRY AFTER
free    yes                 allow          -          -       -          -
orders  yes                 deny (shadow)  5          10s     0          2.5s
                            allow          unlimited  10m0s   unlimited  -
export  no: route: /export  -              -          -       -          -
`
	if out, err := call(t, env, args...); err != nil || out != want {
		t.Errorf("%v after %q\n%s", err, *asked, out)
	}
	if out, err := call(t, env, append(args, "--json")...); err != nil || out != answer+"\n" {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := call(t, env, strings.Fields("explain --ip 192.0.2.1 --device d --session s --tier gold")...); err != nil || strings.Count(out, "\n") != 1 {
		t.Errorf("%v after %q\n%s", err, *asked, out)
	}
}
