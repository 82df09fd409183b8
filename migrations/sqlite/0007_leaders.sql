-- +goose Up
-- The same as for Postgres, whose file explains it, without what processes tell each other: there is one.
ALTER TABLE sales ADD COLUMN epoch_token text NOT NULL DEFAULT '';

CREATE TABLE recovery_late (
    order_id text PRIMARY KEY,
    sale     text NOT NULL,
    payload  blob NOT NULL
) STRICT;
CREATE INDEX recovery_late_by_sale ON recovery_late (sale);

-- +goose Down
DROP TABLE recovery_late;
ALTER TABLE sales DROP COLUMN epoch_token;
