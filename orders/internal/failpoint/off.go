//go:build !failpoints

package failpoint

// Hit marks a place. It does nothing in this build.
func Hit(string) {}

// Step marks a step of a recovery. It does nothing in this build.
func Step(string) {}
