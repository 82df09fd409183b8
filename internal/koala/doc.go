// Package koala decides as Koala does, the frequency-control service at https://github.com/heiyeluren/koala: it reads Koala's rule files,
// and answers what Koala's clients ask. A rule file becomes a rules file of package admission, which then decides; docs/koala.md says how
// each line of it is read, and what is different.
package koala
