-- +goose Up
CREATE SEQUENCE sales_revision;

-- switch is what the operator set; the hours and the clock make the state of it.
-- epoch is part of every Redis key of the sale: raising it abandons what Redis holds.
-- salt keys the hashes by which Redis knows buyers and idempotency keys of this sale.
-- revision orders changes: a process that saw revision r asks for what came after.
CREATE TABLE sales (
    sale          text        PRIMARY KEY,
    switch        text        NOT NULL DEFAULT 'draft' CHECK (switch IN ('draft', 'open', 'paused', 'closed')),
    starts_at     timestamptz NOT NULL,
    ends_at       timestamptz NOT NULL CHECK (ends_at > starts_at),
    requires_user boolean     NOT NULL,
    hold_ms       bigint      NOT NULL CHECK (hold_ms >= 0),
    salt          bytea       NOT NULL,
    epoch         bigint      NOT NULL DEFAULT 1,
    revision      bigint      NOT NULL UNIQUE DEFAULT nextval('sales_revision')
);

-- number is part of every order id, so that an id alone leads to its Redis slot.
-- quota_ever is the highest quota there was: what a buyer holds was within one of them.
CREATE TABLE items (
    sale            text    NOT NULL REFERENCES sales,
    item            text    NOT NULL,
    number          integer NOT NULL UNIQUE GENERATED ALWAYS AS IDENTITY (MINVALUE 1 MAXVALUE 16777215),
    stock           integer NOT NULL CHECK (stock >= 0),
    quota_per_buyer integer NOT NULL CHECK (quota_per_buyer >= 1),
    quota_ever      integer NOT NULL CHECK (quota_ever >= quota_per_buyer),
    in_flight_max   integer NOT NULL CHECK (in_flight_max >= 1),
    PRIMARY KEY (sale, item)
);

-- No foreign key: a commit of hundreds of orders holds the sale's row anyway.
-- key_hash is '' for an order placed without a key, NULL when the order gave its identity up.
-- units is the history; who owns a unit now stands in order_units.
CREATE TABLE orders (
    order_id     uuid        PRIMARY KEY,
    sale         text        NOT NULL,
    item         text        NOT NULL,
    buyer        text        NOT NULL,
    buyer_hash   text        NOT NULL,
    key_hash     text,
    quantity     integer     NOT NULL CHECK (quantity >= 1),
    units        integer[]   NOT NULL,
    status       text        NOT NULL CHECK (status IN ('confirmed', 'paid', 'cancelled', 'expired', 'rejected')),
    reason       text        NOT NULL DEFAULT '',
    epoch        bigint      NOT NULL,
    accepted_at  timestamptz NOT NULL,
    confirmed_at timestamptz,
    pay_before   timestamptz
);
CREATE UNIQUE INDEX orders_identity ON orders (sale, buyer_hash, item, key_hash);
CREATE INDEX orders_by_sale ON orders (sale, order_id);

-- The primary key is what makes overselling impossible, whatever Redis forgets.
CREATE TABLE order_units (
    sale     text    NOT NULL,
    item     text    NOT NULL,
    unit     integer NOT NULL CHECK (unit >= 1),
    order_id uuid    NOT NULL,
    PRIMARY KEY (sale, item, unit)
);

-- Orders that were answered 202 and that the database refuses to hold; payload is the queued task.
CREATE TABLE dead_letters (
    order_id   uuid        PRIMARY KEY,
    sale       text        NOT NULL,
    item       text        NOT NULL,
    payload    bytea       NOT NULL,
    reason     text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX dead_letters_by_sale ON dead_letters (sale, order_id);

-- +goose Down
DROP TABLE dead_letters;
DROP TABLE order_units;
DROP TABLE orders;
DROP TABLE items;
DROP TABLE sales;
DROP SEQUENCE sales_revision;
