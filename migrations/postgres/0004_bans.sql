-- +goose Up
-- What became of bans, for operators: a row for each that was made and for each that was lifted. Bans in force are in Redis.
-- id is the event's own, so that an event which is told twice is kept once.
-- kind and value say who; an address or a user stands here in clear, or nobody could lift the ban.
CREATE TABLE ban_events (
    id         text        PRIMARY KEY,
    at         timestamptz NOT NULL,
    lifted     boolean     NOT NULL,
    kind       text        NOT NULL CHECK (kind IN ('user', 'ip', 'network', 'device')),
    value      text        NOT NULL,
    reason     text        NOT NULL,
    rule       text        NOT NULL,
    since      timestamptz NOT NULL,
    until      timestamptz NOT NULL,
    times      integer     NOT NULL
);
CREATE INDEX ban_events_by_time ON ban_events (at, id);

-- +goose Down
DROP TABLE ban_events;
