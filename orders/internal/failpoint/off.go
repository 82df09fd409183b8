//go:build !failpoints

package failpoint

// Hit is a place where a test can fail the process. It does nothing in this build.
func Hit(string) {}

// Step is a step of a recovery at which a test can fail the process. It does nothing in this build.
func Step(string) {}
