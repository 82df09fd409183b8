-- +goose Up
-- epoch_floor is the lowest epoch whose reservations are committed with their units. It stays below epoch while a
-- recovery collects what processes remember, and is raised to it before the units are counted.
ALTER TABLE sales ADD COLUMN epoch_floor bigint NOT NULL DEFAULT 1 CHECK (epoch_floor <= epoch);
UPDATE sales SET epoch_floor = epoch;

CREATE INDEX orders_unpaid ON orders (pay_before) WHERE status = 'confirmed' AND pay_before IS NOT NULL;

-- Every change of an order, in the transaction that made it; rows are only added. action and reference are those of a
-- capture: it paid the order, or found none to pay and is to be refunded.
CREATE TABLE order_events (
    seq       bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    at        timestamptz NOT NULL DEFAULT now(),
    order_id  uuid        NOT NULL,
    status    text        NOT NULL,
    reason    text        NOT NULL DEFAULT '',
    action    text        NOT NULL DEFAULT '' CHECK (action IN ('', 'none', 'refund')),
    reference text        NOT NULL DEFAULT ''
);
INSERT INTO order_events (at, order_id, status, reason)
SELECT coalesce(confirmed_at, accepted_at), order_id, status, reason FROM orders ORDER BY order_id;
-- Ids grow with time as the table does, so this small index leads to the events of a sale.
CREATE INDEX order_events_by_order ON order_events USING brin (order_id) WITH (autosummarize = on);
-- +goose StatementBegin
CREATE FUNCTION order_events_are_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'order_events is only added to';
END $$;
-- +goose StatementEnd
CREATE TRIGGER order_events_are_final BEFORE UPDATE OR DELETE ON order_events EXECUTE FUNCTION order_events_are_final();

-- Every capture that the payment provider told of, once.
CREATE TABLE payments (
    reference   text        PRIMARY KEY,
    order_id    uuid        NOT NULL,
    action      text        NOT NULL CHECK (action IN ('none', 'refund')),
    captured_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX payments_that_paid ON payments (order_id) WHERE action = 'none';

-- Units on their way back to Redis: written with the end of their order, deleted when Redis has them. epoch is the
-- sale's when the order ended; a later one was counted without the order.
CREATE TABLE order_returns (
    order_id   uuid      PRIMARY KEY,
    sale       text      NOT NULL,
    item       text      NOT NULL,
    epoch      bigint    NOT NULL,
    buyer_hash text      NOT NULL,
    keyless    boolean   NOT NULL,
    quantity   integer   NOT NULL,
    units      integer[] NOT NULL
);

-- Which processes are alive, and which of them have handed over what they remember of a sale's earlier epochs.
CREATE TABLE processes (
    process  uuid        PRIMARY KEY,
    beats_at timestamptz NOT NULL
);
CREATE TABLE recovery_acks (
    sale    text   NOT NULL,
    epoch   bigint NOT NULL,
    process uuid   NOT NULL,
    PRIMARY KEY (sale, epoch, process)
);

-- +goose Down
DROP TABLE recovery_acks;
DROP TABLE processes;
DROP TABLE order_returns;
DROP TABLE payments;
DROP TABLE order_events;
DROP FUNCTION order_events_are_final;
DROP INDEX orders_unpaid;
ALTER TABLE sales DROP COLUMN epoch_floor;
