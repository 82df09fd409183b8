-- +goose Up
-- key makes the MAC in order ids, by which a made-up id is unknown without a look at Redis or this database. It does not derive from
-- SECRET: orders must be found after that has changed.
-- plain_until: ids without a MAC were issued until then. Programs of before may run beside new ones for a while, so it is a week from
-- now; NULL where nobody can have ordered yet.
CREATE TABLE order_id_key (
    one         boolean     PRIMARY KEY DEFAULT true CHECK (one),
    key         bytea       NOT NULL,
    plain_until timestamptz
);
INSERT INTO order_id_key (key, plain_until)
SELECT uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()), CASE WHEN EXISTS (SELECT FROM sales) THEN now() + interval '7 days' END;

-- +goose Down
DROP TABLE order_id_key;
