-- +goose Up
-- Why the sale of a room takes no orders; the room stands still or has ended with it: '', paused, not_started or ended.
ALTER TABLE waiting_rooms ADD COLUMN sale_state text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE waiting_rooms DROP COLUMN sale_state;
