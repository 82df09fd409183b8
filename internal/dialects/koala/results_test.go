package koala_test

import (
	"testing"

	"github.com/tidegate/tidegate/internal/dialects/koala"
)

// The results of the file that comes with Koala are what callers get, with the return number of the rule that answers: of words to type as of refusals.
func TestShippedResults(t *testing.T) {
	s := serveRules(t, `rule : [direct] [uid=1] [] [result=1; return=101]
rule : [count] [uid=2] [time=60; count=1] [result=2; return=102]
rule : [leak] [uid=3] [time=60; count=1] [result=3; return=103]
rule : [base] [uid=4] [base=1; time=60; count=1] [result=4; return=104]`, nil)
	within := koala.Result{RetType: 1, StrReason: "Allow"}
	for uid, want := range map[string][]koala.Result{
		"0": {{StrReason: "Allow"}},
		"1": {{RetType: 1, RetCode: 101, StrReason: "Allow"}},
		"2": {within, {RetType: 2, RetCode: 102, ErrNo: 10, StrReason: "Deny"}},
		"3": {within, {RetType: 3, RetCode: 103, ErrNo: 20, StrReason: "Vcode", NeedVcode: 1, VcodeLen: 4}},
		"4": {within, within, {RetType: 4, RetCode: 104, ErrNo: 21, StrReason: "Vcode", NeedVcode: 1, VcodeLen: 6}},
	} {
		for i, want := range want {
			if got, err := s.Browse(t.Context(), koala.Params{"uid": uid}, true); err != nil || got != want {
				t.Errorf("uid %s, request %d: %+v %v, want %+v", uid, i, got, err, want)
			}
		}
	}
}
