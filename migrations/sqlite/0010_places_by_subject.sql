-- +goose Up
-- The current place of a subject. Subjects are hashes of their room, so the first column alone finds one place: whatever the planner knows of
-- the table, it reads no others.
DROP INDEX waiting_places_by_subject;
CREATE UNIQUE INDEX waiting_places_by_subject ON waiting_places (subject, room) WHERE replaced = 0;

-- +goose Down
DROP INDEX waiting_places_by_subject;
CREATE UNIQUE INDEX waiting_places_by_subject ON waiting_places (room, subject) WHERE replaced = 0;
