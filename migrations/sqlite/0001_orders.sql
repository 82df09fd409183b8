-- +goose Up
-- The same tables as for Postgres, whose file explains them, without what processes store for each other: there is one. Times are Unix
-- milliseconds, units a JSON array.
CREATE TABLE sales (
    sale          text    PRIMARY KEY,
    switch        text    NOT NULL DEFAULT 'draft' CHECK (switch IN ('draft', 'open', 'paused', 'closed')),
    starts_at     integer NOT NULL,
    ends_at       integer NOT NULL CHECK (ends_at > starts_at),
    requires_user integer NOT NULL,
    hold_ms       integer NOT NULL CHECK (hold_ms >= 0),
    salt          blob    NOT NULL,
    epoch         integer NOT NULL DEFAULT 1,
    epoch_floor   integer NOT NULL DEFAULT 1,
    epoch_token   text    NOT NULL DEFAULT '',
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
    final           integer NOT NULL DEFAULT 0,
    room            text    NOT NULL DEFAULT '',
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
CREATE INDEX orders_unpaid ON orders (pay_before) WHERE status = 'confirmed' AND pay_before IS NOT NULL;

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

CREATE TABLE order_events (
    seq       integer PRIMARY KEY AUTOINCREMENT,
    at        integer NOT NULL,
    order_id  text    NOT NULL,
    status    text    NOT NULL,
    reason    text    NOT NULL DEFAULT '',
    action    text    NOT NULL DEFAULT '' CHECK (action IN ('', 'none', 'refund')),
    reference text    NOT NULL DEFAULT ''
) STRICT;
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

CREATE TABLE recovery_late (
    order_id text PRIMARY KEY,
    sale     text NOT NULL,
    payload  blob NOT NULL
) STRICT;
CREATE INDEX recovery_late_by_sale ON recovery_late (sale);

CREATE TABLE order_id_key (
    one integer PRIMARY KEY CHECK (one = 1),
    key blob    NOT NULL
) STRICT;
INSERT INTO order_id_key (one, key) VALUES (1, randomblob(32));

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
DROP TABLE order_id_key;
DROP TABLE recovery_late;
DROP TABLE order_returns;
DROP TABLE payments;
DROP TABLE order_events;
DROP TABLE dead_letters;
DROP TABLE order_units;
DROP TABLE orders;
DROP TABLE items;
DROP TABLE sales;
