CREATE TABLE IF NOT EXISTS stock (
    sale  text    NOT NULL,
    item  text    NOT NULL,
    stock integer NOT NULL,
    sold  integer NOT NULL DEFAULT 0 CHECK (sold <= stock),
    PRIMARY KEY (sale, item)
) WITH (fillfactor = 50); -- room for updates of a hot row beside it

CREATE TABLE IF NOT EXISTS orders (
    order_id   uuid        PRIMARY KEY,
    sale       text        NOT NULL,
    item       text        NOT NULL,
    buyer      text        NOT NULL,
    status     text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (sale, item, buyer)
);
