-- +goose Up
-- Which namespace of Redis uses this database. The row is written at the first use. id is random; a file has no other identity.
CREATE TABLE installation (
    one       integer PRIMARY KEY CHECK (one = 1),
    id        text    NOT NULL,
    namespace text    NOT NULL
) STRICT;

-- +goose Down
DROP TABLE installation;
