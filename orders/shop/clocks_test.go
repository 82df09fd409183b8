package shop

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestThisProcesssClockDecidesNothing finds uses of the local clock for more than durations. It may be wrong by days, so times of sales and
// orders are compared with the clock of Redis or of the database: core.clock, and now() in SQL.
func TestThisProcesssClockDecidesNothing(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	parts, err := filepath.Glob("internal/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, parts...)
	uses := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if isCall(call, "Now") {
				uses++
			}
			if wrong := decidesByLocalClock(call); wrong != "" {
				t.Errorf("%s: %s", set.Position(call.Pos()), wrong)
			}
			return true
		})
	}
	if uses < 10 {
		t.Errorf("only %d uses of the clock were found", uses)
	}
	for text, wrong := range map[string]bool{
		`time.Since(began)`: false, `time.Since(r.began)`: false, `time.Until(pauses[sale].until)`: false, `time.Now().Before(pausedUntil)`: false,
		`lease.Held(time.Now())`: false, `time.Since(def.EndsAt)`: true, `time.Since(id.time())`: true, `time.Now().Before(l.forgetAt())`: true,
		`ci.keysExpiredAt(time.Now())`: true, `l.EndsAt.Before(time.Now())`: true, `time.Now().Sub(o.AcceptedAt)`: true,
	} {
		e, err := parser.ParseExpr(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := decidesByLocalClock(e.(*ast.CallExpr)); (got != "") != wrong {
			t.Errorf("%s: %q", text, got)
		}
	}
}

// takeLocalTimes are functions that take a reading of this process's monotonic clock.
var takeLocalTimes = []string{"Held", "Live", "Observe", "failed", "add", "report"}

// decidesByLocalClock returns what is wrong with a call: it compares a reading of the local clock with something that is not one.
func decidesByLocalClock(call *ast.CallExpr) string {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	switch {
	case isCall(call, "Since"), isCall(call, "Until"):
		if isOfServer(call.Args[0]) {
			return "the local clock is compared with a time of a server"
		}
	case slices.Contains([]string{"Before", "After", "Sub", "Compare"}, f.Sel.Name):
		if isCall(f.X, "Now") && isOfServer(call.Args[0]) || len(call.Args) == 1 && isCall(call.Args[0], "Now") && isOfServer(f.X) {
			return "the local clock is compared with a time of a server"
		}
	case slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return isCall(e, "Now") }) && !slices.Contains(takeLocalTimes, f.Sel.Name):
		return f.Sel.Name + " decides by the local clock"
	}
	return ""
}

// isCall reports whether e is a call of a function of package time.
func isCall(e ast.Expr, name string) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := f.X.(*ast.Ident)
	return ok && pkg.Name == "time" && f.Sel.Name == name
}

// isOfServer reports whether e is the result of a call, or an exported field: those have times of servers.
func isOfServer(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CallExpr:
		return true
	case *ast.SelectorExpr:
		return e.Sel.IsExported()
	}
	return false
}
