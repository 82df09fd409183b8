-- +goose Up
-- What operators changed: who asked for what, and what came of it. detail is the request as JSON.
CREATE TABLE audit_events (
    id         text        PRIMARY KEY,
    at         timestamptz NOT NULL,
    actor      text        NOT NULL,
    action     text        NOT NULL,
    target     text        NOT NULL,
    detail     text        NOT NULL,
    outcome    text        NOT NULL,
    request_id text        NOT NULL
);
CREATE INDEX audit_events_by_time ON audit_events (at, id);

-- +goose Down
DROP TABLE audit_events;
