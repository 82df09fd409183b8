-- +goose Up
-- Who a process is, for operators: when one of them does not hand over what it remembers, a sale stays closed until they find it.
-- commits: it is a worker that has written an order lately, or proved that it could; null for workers of earlier versions.
ALTER TABLE processes
    ADD COLUMN host       text NOT NULL DEFAULT '',
    ADD COLUMN addr       text NOT NULL DEFAULT '',
    ADD COLUMN program    text NOT NULL DEFAULT '',
    ADD COLUMN started_at timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN commits    boolean;

-- +goose Down
ALTER TABLE processes
    DROP COLUMN host,
    DROP COLUMN addr,
    DROP COLUMN program,
    DROP COLUMN started_at,
    DROP COLUMN commits;
