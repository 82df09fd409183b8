-- +goose Up
-- The same as for Postgres, whose file explains it.
CREATE TABLE order_id_key (
    one         integer PRIMARY KEY CHECK (one = 1),
    key         blob    NOT NULL,
    plain_until integer
) STRICT;
INSERT INTO order_id_key (one, key, plain_until)
SELECT 1, randomblob(32), CASE WHEN EXISTS (SELECT 1 FROM sales) THEN (unixepoch() + 7 * 86400) * 1000 END;

-- +goose Down
DROP TABLE order_id_key;
