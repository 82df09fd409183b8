-- +goose Up
CREATE SEQUENCE sales_revision;

-- switch is what the operator set; the hours and the clock make the state of it.
-- epoch is part of every Redis key of the sale: raising it abandons what Redis holds.
-- salt keys the hashes by which Redis knows buyers and idempotency keys of this sale.
-- revision orders changes: a process that saw revision r asks for what came after.
-- epoch_floor is the lowest epoch whose reservations are committed with their units. It stays below epoch while a recovery collects what processes
-- remember, and is raised to it before the units are counted. epoch_token is of the leader that raised the sale to its epoch: it alone may end the
-- hand-over of that epoch.
CREATE TABLE sales (
    sale          text        PRIMARY KEY,
    switch        text        NOT NULL DEFAULT 'draft' CHECK (switch IN ('draft', 'open', 'paused', 'closed')),
    starts_at     timestamptz NOT NULL,
    ends_at       timestamptz NOT NULL CHECK (ends_at > starts_at),
    requires_user boolean     NOT NULL,
    hold_ms       bigint      NOT NULL CHECK (hold_ms >= 0),
    salt          bytea       NOT NULL,
    epoch         bigint      NOT NULL DEFAULT 1,
    epoch_floor   bigint      NOT NULL DEFAULT 1 CHECK (epoch_floor <= epoch),
    epoch_token   text        NOT NULL DEFAULT '',
    revision      bigint      NOT NULL UNIQUE DEFAULT nextval('sales_revision')
);

-- number is part of every order id, so that an id alone leads to its Redis slot.
-- quota_ever is the highest quota there was: what a buyer holds was within one of them.
-- The stock of a final item grows no more. room is the waiting room that an order of the item must have come through, '' for none.
CREATE TABLE items (
    sale            text    NOT NULL REFERENCES sales,
    item            text    NOT NULL,
    number          integer NOT NULL UNIQUE GENERATED ALWAYS AS IDENTITY (MINVALUE 1 MAXVALUE 16777215),
    stock           integer NOT NULL CHECK (stock >= 0),
    quota_per_buyer integer NOT NULL CHECK (quota_per_buyer >= 1),
    quota_ever      integer NOT NULL CHECK (quota_ever >= quota_per_buyer),
    in_flight_max   integer NOT NULL CHECK (in_flight_max >= 1),
    final           boolean NOT NULL DEFAULT false,
    room            text    NOT NULL DEFAULT '',
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
CREATE INDEX orders_unpaid ON orders (pay_before) WHERE status = 'confirmed' AND pay_before IS NOT NULL;

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
-- Ids grow with time as the table does, so this small index leads to the events of a sale.
CREATE INDEX order_events_by_order ON order_events USING brin (order_id) WITH (autosummarize = on);
-- +goose StatementBegin
CREATE FUNCTION order_events_are_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'order_events is only added to';
END $$;
-- +goose StatementEnd
CREATE TRIGGER order_events_are_final BEFORE UPDATE OR DELETE ON order_events EXECUTE FUNCTION order_events_are_final();

-- Every capture that the payment provider reported, once.
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
-- beats grows with each heartbeat. A process is silent when its row stays as it is, by the clock of whoever looks: no time that the database
-- writes is compared with another. commits: it has written orders lately, or proved that it could. The others are for people.
CREATE TABLE processes (
    process    uuid        PRIMARY KEY,
    beats      bigint      NOT NULL,
    beats_at   timestamptz NOT NULL,
    commits    boolean     NOT NULL,
    host       text        NOT NULL,
    addr       text        NOT NULL,
    program    text        NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE recovery_acks (
    sale    text   NOT NULL,
    epoch   bigint NOT NULL,
    process uuid   NOT NULL,
    PRIMARY KEY (sale, epoch, process)
);

-- Orders of earlier epochs whose units a hand-over found taken. Leaders readmit them before the sale opens.
CREATE TABLE recovery_late (
    order_id uuid  PRIMARY KEY,
    sale     text  NOT NULL,
    payload  bytea NOT NULL
);
CREATE INDEX recovery_late_by_sale ON recovery_late (sale);

-- key makes the MAC in order ids, by which a made-up id is unknown without a look at Redis or this database. It does not derive from
-- SECRET: orders must be found after that has changed.
CREATE TABLE order_id_key (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    key bytea   NOT NULL
);
INSERT INTO order_id_key (key) VALUES (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

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
DROP TABLE order_id_key;
DROP TABLE recovery_late;
DROP TABLE recovery_acks;
DROP TABLE processes;
DROP TABLE order_returns;
DROP TABLE payments;
DROP TABLE order_events;
DROP FUNCTION order_events_are_final;
DROP TABLE dead_letters;
DROP TABLE order_units;
DROP TABLE orders;
DROP TABLE items;
DROP TABLE sales;
DROP SEQUENCE sales_revision;
