-- +goose Up
-- The public random value that the draw of a room depends on: a round of drand, and its signature.
ALTER TABLE waiting_rooms ADD COLUMN beacon           text   NOT NULL DEFAULT ''; -- drand, or ''
ALTER TABLE waiting_rooms ADD COLUMN beacon_round     bigint NOT NULL DEFAULT 0;
ALTER TABLE waiting_rooms ADD COLUMN beacon_signature text   NOT NULL DEFAULT '';
ALTER TABLE waiting_rooms ADD COLUMN listed_at        bigint NOT NULL DEFAULT 0;  -- when the list of those who take part was complete

-- An API of an earlier release knows no beacon, and would draw without it.
ALTER TABLE waiting_rooms ADD CONSTRAINT waiting_rooms_drawn_with_beacon CHECK (beacon = '' OR drawn_at = 0 OR beacon_signature <> '');

-- +goose Down
ALTER TABLE waiting_rooms DROP COLUMN beacon;
ALTER TABLE waiting_rooms DROP COLUMN beacon_round;
ALTER TABLE waiting_rooms DROP COLUMN beacon_signature;
ALTER TABLE waiting_rooms DROP COLUMN listed_at;
