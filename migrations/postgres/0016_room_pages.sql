-- +goose Up
-- What the page of a room shows and where it leads, in JSON.
ALTER TABLE waiting_rooms ADD COLUMN page text NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE waiting_rooms DROP COLUMN page;
