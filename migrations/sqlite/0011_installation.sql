-- +goose Up
-- Which namespace of Redis uses this database. The row is written at the first use. id is random; a file has no other identity, so the last two
-- columns, which Postgres uses, keep their defaults.
CREATE TABLE installation (
    one               integer PRIMARY KEY CHECK (one = 1),
    id                text    NOT NULL,
    namespace         text    NOT NULL,
    system_identifier integer,
    database_oid      integer NOT NULL DEFAULT 0
) STRICT;

-- +goose Down
DROP TABLE installation;
