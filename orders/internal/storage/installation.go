package storage

import (
	"fmt"
)

// Place is where a Postgres database is. A clone and a restored dump are in another place than their origin; a standby is not.
type Place struct {
	System   int64 // system identifier of the server's data; 0: unknown
	Database int64 // oid of the database
}

// is compares what is known of both.
func (p Place) Is(o Place) bool {
	return p.Database == o.Database && (p.System == o.System || p.System == 0 || o.System == 0)
}

// String returns "SYSTEM/OID".
func (p Place) String() string { return fmt.Sprintf("%d/%d", p.System, p.Database) }

// Installation is what a database stores of the installation that it belongs to. It has no ID before the first use.
type Installation struct {
	ID        string // random; copies of the database have the same
	Namespace string // that uses the database
	Stored    Place  // where the database was when this was stored
	Live      Place  // where it is now
}
