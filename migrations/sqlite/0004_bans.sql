-- +goose Up
-- The same table as for Postgres, whose file explains it. Times are Unix milliseconds.
CREATE TABLE ban_events (
    id         text    PRIMARY KEY,
    at         integer NOT NULL,
    lifted     integer NOT NULL,
    kind       text    NOT NULL CHECK (kind IN ('user', 'ip', 'network', 'device')),
    value      text    NOT NULL,
    reason     text    NOT NULL,
    rule       text    NOT NULL,
    since      integer NOT NULL,
    until      integer NOT NULL,
    times      integer NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX ban_events_by_time ON ban_events (at, id);

-- +goose Down
DROP TABLE ban_events;
