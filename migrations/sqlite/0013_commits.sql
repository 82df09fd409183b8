-- +goose Up
-- What processes tell each other is not here: there is one.
SELECT 1;

-- +goose Down
SELECT 1;
