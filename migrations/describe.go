package migrations

import (
	"context"
	"database/sql"
	"regexp"
	"strings"
)

// A description lists the parts of a database's schema, tables first.
type description func(ctx context.Context, db *sql.DB) ([]Part, error)

// describePostgres describes the tables that the search path leads to. A part that is there and has no effect gets a definition
// that differs.
func describePostgres(ctx context.Context, db *sql.DB) ([]Part, error) {
	return readParts(ctx, db, `
		WITH t AS (
			SELECT c.oid, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
			WHERE relkind IN ('r', 'p') AND nspname = ANY (current_schemas(false)) AND pg_table_is_visible(c.oid)
			AND relname NOT IN ('tidegate_versions', 'goose_db_version')
		), col AS (
			SELECT relname, attname, attnotnull, attidentity, format_type(atttypid, atttypmod) AS type, pg_get_expr(adbin, adrelid) AS value
			FROM t JOIN pg_attribute ON attrelid = oid AND attnum > 0 AND NOT attisdropped
			LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
		), part AS (
			SELECT 1 AS rank, 'table' AS kind, relname, relname AS name, '' AS definition FROM t
			UNION ALL SELECT 2, 'column', relname, attname, type FROM col
			UNION ALL SELECT 3, 'not null', relname, attname, 'NOT NULL' FROM col WHERE attnotnull
			UNION ALL SELECT 4, 'default', relname, attname, value FROM col WHERE value IS NOT NULL
			UNION ALL SELECT 5, 'identity', relname, attname, 'GENERATED ' || CASE attidentity WHEN 'a' THEN 'ALWAYS' ELSE 'BY DEFAULT' END
				|| ' AS IDENTITY (MINVALUE ' || seqmin || ' MAXVALUE ' || seqmax || ')'
			FROM col JOIN pg_sequence ON seqrelid = pg_get_serial_sequence(quote_ident(relname), attname)::regclass WHERE attidentity <> ''
			UNION ALL SELECT 6, CASE contype WHEN 'p' THEN 'primary key' WHEN 'u' THEN 'unique' WHEN 'c' THEN 'check' ELSE 'foreign key' END,
				relname, conname, pg_get_constraintdef(c.oid) || CASE WHEN EXISTS
				(SELECT FROM pg_trigger WHERE tgconstraint = c.oid AND tgenabled IN ('D', 'R')) THEN ' DISABLED' ELSE '' END
			FROM t JOIN pg_constraint c ON conrelid = t.oid WHERE contype IN ('p', 'u', 'c', 'f')
			UNION ALL SELECT 7, CASE WHEN indisunique THEN 'unique index' ELSE 'index' END, t.relname, i.relname,
				'ON ' || t.relname || substring(pg_get_indexdef(indexrelid) from ' USING .*') || CASE WHEN indisvalid THEN '' ELSE ' INVALID' END
			FROM t JOIN pg_index ON indrelid = t.oid JOIN pg_class i ON i.oid = indexrelid
			WHERE NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u'))
			UNION ALL SELECT DISTINCT 8, 'function', relname, proname, prosrc
			FROM t JOIN pg_trigger ON tgrelid = t.oid JOIN pg_proc ON pg_proc.oid = tgfoid WHERE NOT tgisinternal
			UNION ALL SELECT 9, 'trigger', relname, tgname, substring(pg_get_triggerdef(g.oid, true) from '(?:BEFORE|AFTER) .*')
				|| CASE WHEN tgenabled IN ('D', 'R') THEN ' DISABLED' ELSE '' END
			FROM t JOIN pg_trigger g ON tgrelid = t.oid WHERE NOT tgisinternal
		)
		SELECT kind, relname, name, definition FROM part ORDER BY rank, kind DESC, relname COLLATE "C", name COLLATE "C"`)
}

// describeSQLite reads the statements that SQLite keeps of each table, index and trigger. ALTER TABLE ADD COLUMN appends to that
// of the table.
func describeSQLite(ctx context.Context, db *sql.DB) ([]Part, error) {
	statements, err := readParts(ctx, db, `
		SELECT CASE WHEN sql LIKE 'CREATE UNIQUE %' THEN 'unique index' ELSE type END, tbl_name, name, sql FROM sqlite_master
		WHERE sql IS NOT NULL AND tbl_name NOT IN ('tidegate_versions', 'goose_db_version') AND tbl_name NOT LIKE 'sqlite_%'
		ORDER BY CASE type WHEN 'table' THEN 1 WHEN 'index' THEN 2 ELSE 3 END, name`)
	var list []Part
	for _, s := range statements {
		_, s.Definition, _ = strings.Cut(s.Definition, s.Name+" ")
		if s.Kind == "table" {
			list = append(list, partsOfTable(s)...)
		} else {
			list = append(list, s)
		}
	}
	return list, err
}

// partsOfTable splits the definition of a table: (column type constraint …, …, table constraint, …) STRICT. The first part is the
// table, with what follows the parentheses.
func partsOfTable(table Part) []Part {
	list := []Part{table}
	depth, begin, quoted := 0, 0, false
	text := table.Definition
	for i, c := range text {
		switch {
		case c == '\'':
			quoted = !quoted
		case quoted:
		case c == '(':
			if depth++; depth == 1 {
				begin = i + 1
			}
		case depth == 1 && (c == ',' || c == ')'):
			list = append(list, partOfTable(table.Table, strings.TrimSpace(text[begin:i])))
			if begin = i + 1; c == ')' {
				depth = 0
				list[0].Definition = strings.TrimSpace(text[begin:])
			}
		case c == ')':
			depth--
		}
	}
	return list
}

func partOfTable(table, text string) Part {
	switch name, definition, _ := strings.Cut(text, " "); name {
	case "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "CONSTRAINT":
		return Part{"constraint", table, text, text}
	default:
		return Part{"column", table, name, definition}
	}
}

var remark = regexp.MustCompile(`--[^\n]*`)

// readParts reads parts, each in one line.
func readParts(ctx context.Context, db *sql.DB, query string) ([]Part, error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Part
	for rows.Next() {
		var p Part
		if err := rows.Scan(&p.Kind, &p.Table, &p.Name, &p.Definition); err != nil {
			return nil, err
		}
		p.Definition = strings.Join(strings.Fields(remark.ReplaceAllString(p.Definition, "")), " ")
		list = append(list, p)
	}
	return list, rows.Err()
}
