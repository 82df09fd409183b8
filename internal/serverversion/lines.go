package serverversion

// Line is a release line of a product.
type Line struct {
	Name  string
	Line  string // "8.1", of Postgres "17"
	Least string // least version with the security fixes known when Lines was written; "" if the line has no such release
	Fixes string // one of them
}

// Lines are the lines that the programs run on. docs/operations.md has the same table, with sources. Known on 2026-11-23.
var Lines = []Line{
	{"Redis", "6.2", "6.2.24", "CVE-2026-81934"},
	{"Redis", "7.0", "", "CVE-2026-81934"},
	{"Redis", "7.2", "7.2.16", "CVE-2026-81934"},
	{"Redis", "7.4", "7.4.11", "CVE-2026-81934"},
	{"Redis", "8.0", "", "CVE-2026-81934"},
	{"Redis", "8.2", "8.2.9", "CVE-2026-81934"},
	{"Redis", "8.4", "8.4.6", "CVE-2026-81934"},
	{"Redis", "8.6", "8.6.6", "CVE-2026-81934"},
	{"Redis", "8.8", "8.8.2", "CVE-2026-81934"},
	{"Redis", "8.10", "8.10.1", "CVE-2026-81934"},
	{"Valkey", "8.0", "8.0.11", "GHSA-jcj7-v34w-v9vv"},
	{"Valkey", "8.1", "8.1.10", "GHSA-jcj7-v34w-v9vv"},
	{"Valkey", "9.0", "9.0.5", "CVE-2026-63639"},
	{"Valkey", "9.1", "9.1.1", "CVE-2026-63639"},
	{"Postgres", "13", "", "CVE-2026-6460"},
	{"Postgres", "14", "14.25", "CVE-2026-6460"},
	{"Postgres", "15", "15.20", "CVE-2026-6460"},
	{"Postgres", "16", "16.16", "CVE-2026-6460"},
	{"Postgres", "17", "17.12", "CVE-2026-6460"},
	{"Postgres", "18", "18.7", "CVE-2026-6460"},
}
