-- +goose Up
-- What semaphores there are: a row for each that was ever declared. What an operator has set goes before what the rules file says; where both
-- are null there is no such semaphore any more. The row stays, because it tells that Redis has known the semaphore once: one that does not know
-- it now has lost its memory, and permits with it.
CREATE TABLE semaphores (
    name          text        PRIMARY KEY,
    file_limit    integer     CHECK (file_limit >= 0),
    file_lease_ms bigint      CHECK ((file_lease_ms IS NULL) = (file_limit IS NULL)),
    set_limit     integer     CHECK (set_limit >= 0),
    set_lease_ms  bigint      CHECK ((set_lease_ms IS NULL) = (set_limit IS NULL)),
    set_by        text        CHECK ((set_by IS NULL) = (set_limit IS NULL)),
    set_at        timestamptz CHECK ((set_at IS NULL) = (set_limit IS NULL))
);

-- +goose Down
DROP TABLE semaphores;
