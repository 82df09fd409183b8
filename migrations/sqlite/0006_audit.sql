-- +goose Up
-- The same as for Postgres, whose file explains it. Times are Unix milliseconds.
CREATE TABLE audit_events (
    id         text    PRIMARY KEY,
    at         integer NOT NULL,
    actor      text    NOT NULL,
    action     text    NOT NULL,
    target     text    NOT NULL,
    detail     text    NOT NULL,
    outcome    text    NOT NULL,
    request_id text    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX audit_events_by_time ON audit_events (at, id);

-- +goose Down
DROP TABLE audit_events;
