// Package rulesfile parses one YAML file of many sections without reflection, so that every error has a position and says what would be
// right. Package rules reads the file; each other package that has a section in it parses its own, by a [Section].
//
// Why sections are values and not a registry: rules.Parse and rules.Load get those that the caller wants checked, so that a file with an
// error in any of them is refused as a whole, and the dependencies of a program do not change what its files may contain. A section that the
// caller does not name is kept and parsed where it is used. So admission/rules imports none of its users, and a Go program that uses only
// admission/rules can load a file that has login rules.
package rulesfile
