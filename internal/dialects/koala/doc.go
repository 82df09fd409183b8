// Package koala is a compatible replacement for Koala, the frequency-control service at https://github.com/heiyeluren/koala: it reads
// Koala's rule files and answers Koala's clients. It translates a rule file to a rules file of package admission, which decides;
// docs/koala.md describes how each line is translated, and the differences.
package koala
