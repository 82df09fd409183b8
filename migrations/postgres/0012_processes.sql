-- +goose Up
-- Who a process is, for operators: when one of them does not hand over what it remembers, a sale stays closed until they find it.
ALTER TABLE processes
    ADD COLUMN host       text NOT NULL DEFAULT '',
    ADD COLUMN addr       text NOT NULL DEFAULT '',
    ADD COLUMN program    text NOT NULL DEFAULT '',
    ADD COLUMN started_at timestamptz NOT NULL DEFAULT now();

-- +goose Down
ALTER TABLE processes
    DROP COLUMN host,
    DROP COLUMN addr,
    DROP COLUMN program,
    DROP COLUMN started_at;
