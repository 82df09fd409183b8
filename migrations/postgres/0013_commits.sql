-- +goose Up
-- A worker that has written orders lately, or proved that it could; null for processes of earlier versions.
ALTER TABLE processes ADD COLUMN commits boolean;

-- +goose Down
ALTER TABLE processes DROP COLUMN commits;
