-- +goose Up
-- The same table as for Postgres, whose file explains it. Times are Unix milliseconds.
CREATE TABLE semaphores (
    name          text    PRIMARY KEY,
    file_limit    integer CHECK (file_limit >= 0),
    file_lease_ms integer CHECK ((file_lease_ms IS NULL) = (file_limit IS NULL)),
    set_limit     integer CHECK (set_limit >= 0),
    set_lease_ms  integer CHECK ((set_lease_ms IS NULL) = (set_limit IS NULL)),
    set_by        text    CHECK ((set_by IS NULL) = (set_limit IS NULL)),
    set_at        integer CHECK ((set_at IS NULL) = (set_limit IS NULL))
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE semaphores;
