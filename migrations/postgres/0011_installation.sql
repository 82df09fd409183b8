-- +goose Up
-- Which namespace of Redis uses this database. The row is written at the first use, so that copies of an unused database are no clones.
-- id is random. A clone or a restored dump has the same id in another place: system_identifier is of the server's data (null if the
-- role may not read it), database_oid of the database in it.
CREATE TABLE installation (
    one               boolean PRIMARY KEY DEFAULT true CHECK (one),
    id                uuid    NOT NULL DEFAULT gen_random_uuid(),
    namespace         text    NOT NULL,
    system_identifier bigint,
    database_oid      bigint  NOT NULL
);

-- +goose Down
DROP TABLE installation;
