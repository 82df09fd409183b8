-- +goose Up
-- The same as for Postgres, whose file explains it, without what processes tell each other: there is one.
ALTER TABLE sales ADD COLUMN epoch_floor integer NOT NULL DEFAULT 1;
UPDATE sales SET epoch_floor = epoch;

CREATE INDEX orders_unpaid ON orders (pay_before) WHERE status = 'confirmed' AND pay_before IS NOT NULL;

CREATE TABLE order_events (
    seq       integer PRIMARY KEY AUTOINCREMENT,
    at        integer NOT NULL,
    order_id  text    NOT NULL,
    status    text    NOT NULL,
    reason    text    NOT NULL DEFAULT '',
    action    text    NOT NULL DEFAULT '' CHECK (action IN ('', 'none', 'refund')),
    reference text    NOT NULL DEFAULT ''
) STRICT;
INSERT INTO order_events (at, order_id, status, reason)
SELECT coalesce(confirmed_at, accepted_at), order_id, status, reason FROM orders ORDER BY order_id;
-- +goose StatementBegin
CREATE TRIGGER order_events_stay BEFORE DELETE ON order_events BEGIN SELECT RAISE(ABORT, 'order_events is only added to'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER order_events_are_final BEFORE UPDATE ON order_events BEGIN SELECT RAISE(ABORT, 'order_events is only added to'); END;
-- +goose StatementEnd

CREATE TABLE payments (
    reference   text    PRIMARY KEY,
    order_id    text    NOT NULL,
    action      text    NOT NULL CHECK (action IN ('none', 'refund')),
    captured_at integer NOT NULL
) STRICT;
CREATE UNIQUE INDEX payments_that_paid ON payments (order_id) WHERE action = 'none';

CREATE TABLE order_returns (
    order_id   text    PRIMARY KEY,
    sale       text    NOT NULL,
    item       text    NOT NULL,
    epoch      integer NOT NULL,
    buyer_hash text    NOT NULL,
    keyless    integer NOT NULL,
    quantity   integer NOT NULL,
    units      text    NOT NULL
) STRICT;

-- +goose Down
DROP TABLE order_returns;
DROP TABLE payments;
DROP TABLE order_events;
DROP INDEX orders_unpaid;
ALTER TABLE sales DROP COLUMN epoch_floor;
