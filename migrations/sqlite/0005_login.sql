-- +goose Up
-- The same as for Postgres, whose file explains it. Times are Unix milliseconds.
CREATE TABLE login_events (
    id             text    PRIMARY KEY,
    at             integer NOT NULL,
    rule           text    NOT NULL,
    count          text    NOT NULL,
    action         text    NOT NULL CHECK (action IN ('challenge', 'delay', 'deny', 'ban', 'revoke')),
    factor         text    NOT NULL,
    name_reference text    NOT NULL,
    ip_masked      text    NOT NULL,
    until          integer,
    times          integer NOT NULL,
    shadow         integer NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX login_events_by_time ON login_events (at, id);
CREATE INDEX login_events_by_reference ON login_events (name_reference, at, id) WHERE name_reference <> '';
CREATE INDEX login_events_bans ON login_events (ip_masked) WHERE action = 'ban';

-- +goose Down
DROP TABLE login_events;
