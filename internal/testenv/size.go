package testenv

import (
	"flag"
	"os"
)

// Size returns full if SLOW=1 is set, and short otherwise: for tests that prove more the longer they run. Every such
// test runs in both sizes.
func Size[T any](short, full T) T {
	if os.Getenv("SLOW") == "1" {
		return full
	}
	return short
}

// sizeChecks sets how many random sequences a property is checked with, unless -rapid.checks is given. Call it before flag.Parse.
func sizeChecks() {
	if f := flag.Lookup("rapid.checks"); f != nil { // only in packages that import rapid
		_ = f.Value.Set(Size("30", f.DefValue))
	}
}
