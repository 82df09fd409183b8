-- +goose Up
-- What rules did about failed logins. Nobody is named: name_reference is a keyed hash, ip_masked an address without its end. until is
-- null where a penalty lasts as long as the failures that led to it.
CREATE TABLE login_events (
    id             text        PRIMARY KEY,
    at             timestamptz NOT NULL,
    rule           text        NOT NULL,
    count          text        NOT NULL,
    action         text        NOT NULL CHECK (action IN ('challenge', 'delay', 'deny', 'ban', 'revoke')),
    factor         text        NOT NULL,
    name_reference text        NOT NULL,
    ip_masked      text        NOT NULL,
    until          timestamptz,
    times          integer     NOT NULL,
    shadow         boolean     NOT NULL
);
CREATE INDEX login_events_by_time ON login_events (at, id);
CREATE INDEX login_events_by_reference ON login_events (name_reference, at, id) WHERE name_reference <> '';
-- Who lifts a ban asks for which factors it was made.
CREATE INDEX login_events_bans ON login_events (ip_masked) WHERE action = 'ban';

-- +goose Down
DROP TABLE login_events;
