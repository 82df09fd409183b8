// Package rulesfile has the tree of a rules file: [Node]s that know where they were written. [Parse] decodes one from YAML, an [At] builds
// one from other sources, and [Node.Flow] and [Node.Block] encode it. Packages read their settings from a tree without reflection, so that
// every error has a place and states what would be right.
//
// A file has many sections. Package rules reads it; each other package that has a section in it reads its own, by a [Section].
//
// Why sections are values and not a registry: rules.Parse and rules.Load get those that the caller wants checked, so that a file with an
// error in any of them is refused as a whole, and the dependencies of a program do not change what its files may contain. A
// section that the caller does not name is kept and read where it is used. So admission/rules imports none of its users, and a Go
// program that uses only admission/rules can load a file that has login rules.
package rulesfile
