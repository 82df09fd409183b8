-- +goose Up
-- Why nobody can order in the sale of a room, which stands still or has ended with it: '', paused, not_started or ended.
ALTER TABLE waiting_rooms ADD COLUMN sale_state text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE waiting_rooms DROP COLUMN sale_state;
