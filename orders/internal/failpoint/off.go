//go:build !failpoints

package failpoint

// Hit is a place where a test can fail the process. It does nothing in this build.
func Hit(string) {}

// Armed reports whether the process fails at a place. It does not in this build.
func Armed(string) bool { return false }

// Step is a step of a recovery at which a test can fail the process. It does nothing in this build.
func Step(string) {}
