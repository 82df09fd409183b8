-- +goose Up
-- The same tables as for Postgres, whose file explains them. Times are Unix milliseconds, units a JSON array.
CREATE TABLE sales (
    sale          text    PRIMARY KEY,
    switch        text    NOT NULL DEFAULT 'draft' CHECK (switch IN ('draft', 'open', 'paused', 'closed')),
    starts_at     integer NOT NULL,
    ends_at       integer NOT NULL CHECK (ends_at > starts_at),
    requires_user integer NOT NULL,
    hold_ms       integer NOT NULL CHECK (hold_ms >= 0),
    salt          blob    NOT NULL,
    epoch         integer NOT NULL DEFAULT 1,
    revision      integer NOT NULL UNIQUE
) STRICT;

CREATE TABLE items (
    number          integer PRIMARY KEY AUTOINCREMENT CHECK (number <= 16777215),
    sale            text    NOT NULL REFERENCES sales,
    item            text    NOT NULL,
    stock           integer NOT NULL CHECK (stock >= 0),
    quota_per_buyer integer NOT NULL CHECK (quota_per_buyer >= 1),
    quota_ever      integer NOT NULL CHECK (quota_ever >= quota_per_buyer),
    in_flight_max   integer NOT NULL CHECK (in_flight_max >= 1),
    UNIQUE (sale, item)
) STRICT;

CREATE TABLE orders (
    order_id     text    PRIMARY KEY,
    sale         text    NOT NULL,
    item         text    NOT NULL,
    buyer        text    NOT NULL,
    buyer_hash   text    NOT NULL,
    key_hash     text,
    quantity     integer NOT NULL CHECK (quantity >= 1),
    units        text    NOT NULL,
    status       text    NOT NULL CHECK (status IN ('confirmed', 'paid', 'cancelled', 'expired', 'rejected')),
    reason       text    NOT NULL DEFAULT '',
    epoch        integer NOT NULL,
    accepted_at  integer NOT NULL,
    confirmed_at integer,
    pay_before   integer
) STRICT;
CREATE UNIQUE INDEX orders_identity ON orders (sale, buyer_hash, item, key_hash);
CREATE INDEX orders_by_sale ON orders (sale, order_id);

CREATE TABLE order_units (
    sale     text    NOT NULL,
    item     text    NOT NULL,
    unit     integer NOT NULL CHECK (unit >= 1),
    order_id text    NOT NULL,
    PRIMARY KEY (sale, item, unit)
) STRICT, WITHOUT ROWID;

CREATE TABLE dead_letters (
    order_id   text    PRIMARY KEY,
    sale       text    NOT NULL,
    item       text    NOT NULL,
    payload    blob    NOT NULL,
    reason     text    NOT NULL,
    created_at integer NOT NULL
) STRICT;
CREATE INDEX dead_letters_by_sale ON dead_letters (sale, order_id);

-- +goose Down
DROP TABLE dead_letters;
DROP TABLE order_units;
DROP TABLE orders;
DROP TABLE items;
DROP TABLE sales;
