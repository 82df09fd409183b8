package migrations

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// What the migrations make, as described by describePostgres and describeSQLite. make schema writes these files.
var (
	//go:embed schema/postgres.tsv
	postgresSchema string
	//go:embed schema/sqlite.tsv
	sqliteSchema string
)

// A Part is one thing of the schema.
type Part struct {
	// Kind is table, column, not null, default, identity, primary key, unique, check, foreign key, index, unique index, function or trigger
	// in Postgres, and table, column, constraint, index, unique index or trigger in SQLite, where a column's definition has its constraints.
	Kind       string
	Table      string
	Name       string
	Definition string // in SQL, what follows the name
}

// String names the part.
func (p *Part) String() string {
	switch p.Kind {
	case "table":
		return "table " + p.Name
	case "column", "not null", "default", "identity":
		return p.Kind + " of " + p.Table + "." + p.Name
	}
	return p.Kind + " " + p.Name + " of " + p.Table
}

// A Defect is a part of the schema that a database lacks.
type Defect struct {
	Part
	// Found is the definition of a part with the same kind and name that is there instead; empty if there is none.
	Found string
}

// OnlySlows reports whether the part only makes queries fast. All others keep data correct.
func (d *Defect) OnlySlows() bool { return d.Kind == "index" }

// String names the part, and what is there instead.
func (d *Defect) String() string {
	if d.Found != "" {
		return d.Part.String() + " is changed (" + d.Found + ")"
	}
	return d.Part.String() + " is missing"
}

// Restore returns the SQL that restores the part, or an empty string if only a backup can.
func (d *Defect) Restore() string {
	there := d.Found != ""
	alter := "ALTER TABLE " + d.Table + " "
	switch d.Kind {
	case "not null":
		return alter + "ALTER COLUMN " + d.Name + " SET NOT NULL;"
	case "default":
		return alter + "ALTER COLUMN " + d.Name + " SET DEFAULT " + d.Definition + ";"
	case "identity":
		drop := ""
		if there {
			drop = alter + "ALTER COLUMN " + d.Name + " DROP IDENTITY; "
		}
		// Numbers must not be assigned again.
		return fmt.Sprintf("%s%sALTER COLUMN %s ADD %s; SELECT setval(pg_get_serial_sequence('%s', '%[3]s'), (SELECT coalesce(max(%[3]s), 0) "+
			"+ 1 FROM %[5]s));",
			drop, alter, d.Name, d.Definition, d.Table)
	case "primary key", "unique", "check", "foreign key":
		if there {
			alter += "DROP CONSTRAINT " + d.Name + ", "
		}
		return alter + "ADD CONSTRAINT " + d.Name + " " + d.Definition + ";"
	case "index", "unique index":
		drop := ""
		if there {
			drop = "DROP INDEX " + d.Name + "; "
		}
		return drop + "CREATE " + strings.ToUpper(d.Kind) + " " + d.Name + " " + d.Definition + ";"
	case "function":
		return "CREATE OR REPLACE FUNCTION " + d.Name + "() RETURNS trigger LANGUAGE plpgsql AS $$ " + d.Definition + " $$;"
	case "trigger":
		drop := ""
		if there {
			drop = "DROP TRIGGER " + d.Name + " ON " + d.Table + "; "
		}
		return drop + "CREATE TRIGGER " + d.Name + " " + d.Definition + ";"
	}
	return ""
}

// IncompleteError means that the database lacks parts of the schema, although all migrations were applied.
type IncompleteError struct {
	Defects []Defect // at least one
}

// Error names each part, with the SQL that restores it.
func (e *IncompleteError) Error() string {
	var b strings.Builder
	b.WriteString("migrations: schema is incomplete, although all migrations were applied")
	for i := range e.Defects {
		d := &e.Defects[i]
		b.WriteString("\n" + d.String())
		if how := d.Restore(); how != "" {
			b.WriteString("; restore it with: " + how)
		} else {
			b.WriteString("; it must be " + d.Definition + ": restore a backup")
		}
	}
	return b.String()
}

// OnlySlows reports whether all missing parts only make queries fast.
func (e *IncompleteError) OnlySlows() bool {
	return !slices.ContainsFunc(e.Defects, func(d Defect) bool { return !d.OnlySlows() })
}

// complete returns an IncompleteError unless every part of this program's schema is there. Other parts do not matter, and neither do
// the names of constraints and indexes.
//
// newer: the schema is of a later program, whose migrations may have replaced parts by others of the same names.
func complete(have []Part, golden string, newer bool) error {
	if missing := compare(parseParts(golden), have, newer); len(missing) > 0 {
		return &IncompleteError{missing}
	}
	return nil
}

func compare(want, have []Part, newer bool) (missing []Defect) {
	type key struct{ kind, table, text string }
	equal, named, indexes := make(map[key]bool), make(map[key]string), make(map[string]string)
	for _, p := range have {
		equal[key{p.Kind, p.Table, p.comparable()}] = true
		named[key{p.Kind, p.Table, p.Name}] = p.Definition
		if strings.HasSuffix(p.Kind, "index") {
			indexes[p.Name] = p.Kind + " " + p.Definition
		}
	}
	lost := make(map[string]bool) // tables
	for _, p := range want {
		found, there := named[key{p.Kind, p.Table, p.Name}]
		if lost[p.Table] || equal[key{p.Kind, p.Table, p.comparable()}] || there && newer {
			continue
		}
		if strings.HasSuffix(p.Kind, "index") {
			found = indexes[p.Name] // perhaps not unique, or of another table
		}
		lost[p.Table] = p.Kind == "table"
		missing = append(missing, Defect{p, found})
	}
	return missing
}

// storage is of an index, and does not change what it does.
var storage = regexp.MustCompile(` WITH \([^)]*\)`)

// comparable is equal for parts that do the same: it has no name unless the name matters, and neither what an index is stored like, nor
// that a constraint was not checked for the rows of before.
func (p *Part) comparable() string {
	switch p.Kind {
	case "primary key", "unique", "check", "foreign key", "constraint":
		return strings.TrimSuffix(p.Definition, " NOT VALID")
	case "index", "unique index":
		return storage.ReplaceAllString(p.Definition, "")
	case "trigger":
		return p.Definition
	}
	return p.Name + " " + p.Definition
}

func parseParts(text string) (list []Part) {
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 4)
		list = append(list, Part{f[0], f[1], f[2], f[3]})
	}
	return list
}
