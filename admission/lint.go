package admission

// A Warning is a place of a rules file that is right and probably not meant.
type Warning struct {
	Line int    // from 1
	Rule string // its name; empty for none
	Text string
}
