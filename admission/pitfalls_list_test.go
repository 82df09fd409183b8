package admission_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What went wrong in other rate limiters, and the test that keeps it from going wrong here. Names may lack their end; storetest is
// admission/store/storetest.
//
//	P1   equal times collapse into one                     storetest.testPitfallP01EqualTimesCountEach
//	P2   counted before what has ended is gone             storetest.testPitfallP02NobodyIsRefusedOnceTheWindowHasEnded
//	P3   every hit renews the window's end                 storetest.testPitfallP03HitsDoNotMoveTheEnd
//	P4   a key without TTL locks out for ever              TestPitfall_P04
//	P5   the old window's key counts in the new one        storetest.testPitfallP05TheOldWindowDoesNotCountInTheNew
//	P6   rejected requests are counted                     storetest.testPitfallP06RejectedRequestsAreNotCounted, storetest.testRejectedUnitsCountWithCountRejected
//	P7   the caller's clock                                TestRedisKeepsTheTime
//	P8   times as floating-point numbers                   storetest.testPitfallP08TimesAreExact
//	P9   redis.replicate_commands                          TestPitfall_P09_P20
//	P10  scripts that the server has forgotten             TestForgottenScripts
//	P11  a retry counts twice                              TestNothingIsSentTwice, storetest.testAResendIsAnsweredAsBefore
//	P12  keys of one script in several slots               TestPitfall_P12
//	P13  look first, count later; less than nothing left   storetest.testPitfallP13NothingIsLeftIsNothing, TestExactlyTheLimitUnderConcurrency
//	P14  compare and swap on a hot key                     storetest.testExactlyTheLimitWhateverCounts
//	P15  a lock for every decision                         storetest.testExactlyTheLimitWhateverCounts
//	P16  a denial outlives what it stood on                TestTakingBackEndsADenial, TestADenialThatIsTakenBackOnItsWay
//	P17  a denial outlives its window                      TestWhoWasRefusedIsRefusedWithoutTheStore
//	P18  users' names in metrics                           internal/metrics.TestPitfall_P18
//	P19  the sweep stops the store                         TestPitfall_P19, TestTheDenyCacheIsBounded
//	P20  KEYS or SCAN to clean up                          TestPitfall_P09_P20
//	P21  Redis drops counters to make room                 TestPitfall_P21
//	P22  the end wobbles from caller to caller             storetest.testPitfallP22TheEndIsOneInstant
//	P23  no answer, or a panic, without the store          TestWithoutTheStore, TestALostRedisIsAnsweredWithinTheDeadline
//	P24  seconds of waiting for a dead store               TestNobodyWaitsForADeadStore, TestRedisDiesUnderLoad
//	P25  a release of the client that drops connections    decision: go.mod names one release; another is load-tested first
//	P26  a queue without bounds or contexts                admission/store/redisstore.TestPitfall_P26
//	P27  a rules file that is renamed is lost              TestPitfall_P27
//	P28  checked by many before any counts                 storetest.testExactlyTheLimitWhateverCounts
//	P29  a large batch passes                              storetest.testPitfallP29ABatchAboveTheLimitNeverPasses, storetest.testNoCostIsTooLargeToBeRefused
//	P30  a raised limit still denies                       TestPitfall_P30, storetest.testAlgorithms
//	P31  the first forwarded address is believed           internal/httpapi.TestPitfall_P31, admission/admissionhttp.TestPitfall_P31
//	P32  nodes that count for themselves admit too much    decision: the store alone counts, unless a rule says local and it is away
//	P33  counts are lost when nodes come and go            decision: processes keep none; a cluster of Redis moves slots with their keys
var pitfallLines = regexp.MustCompile(`^\tP(\d+) +\S.*?  +(\S.*)$`)

// Every pitfall is there, with tests that exist or with a decision.
func TestPitfallsHaveTheirTests(t *testing.T) {
	pitfalls, tests := 0, map[string][]string{}
	for _, line := range strings.Split(pitfallTable(t), "\n") {
		if !strings.HasPrefix(line, "\t") {
			continue
		}
		m := pitfallLines.FindStringSubmatch(line)
		if pitfalls++; m == nil || m[1] != strconv.Itoa(pitfalls) {
			t.Fatalf("line %q, want P%d, words, and tests", line, pitfalls)
		}
		if strings.HasPrefix(m[2], "decision: ") {
			continue
		}
		for _, name := range strings.Split(m[2], ", ") {
			dir := "admission"
			if i := strings.LastIndexByte(name, '.'); i >= 0 {
				dir, name = name[:i], name[i+1:]
			}
			if dir == "storetest" { // whose tests are functions that the tests of each store run
				dir = "admission/store/storetest"
			}
			if tests[dir] == nil {
				tests[dir] = testsOf(t, dir)
			}
			if !slices.ContainsFunc(tests[dir], func(test string) bool { return test == name || strings.HasPrefix(test, name+"_") }) {
				t.Errorf("P%d: there is no %s in %s", pitfalls, name, dir)
			}
		}
	}
	if pitfalls != 33 {
		t.Errorf("%d pitfalls, want 33", pitfalls)
	}
}

// pitfallTable returns the comment above pitfallLines.
func pitfallTable(t *testing.T) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "pitfalls_list_test.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.VAR {
			return d.Doc.Text()
		}
	}
	t.Fatal("the table is gone")
	return ""
}

// testsOf returns the names of the tests of a package of the module, and of the functions in it that are called as tests.
func testsOf(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("tests of %s: %v, %v", dir, files, err)
	}
	var names []string
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(strings.ToLower(f.Name.Name), "test") {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}
