-- +goose Up
-- epoch_token is of the leader that raised the sale to its epoch: it alone may end the hand-over of that epoch.
ALTER TABLE sales ADD COLUMN epoch_token text NOT NULL DEFAULT '';

-- beats grows with each heartbeat. A process is silent when its row stays as it is, by the clock of whoever looks: no time that the database
-- writes is compared with another. beats_at is for people.
ALTER TABLE processes ADD COLUMN beats bigint NOT NULL DEFAULT 0;

-- Orders of earlier epochs whose units a hand-over found taken. Leaders readmit them before the sale opens.
CREATE TABLE recovery_late (
    order_id uuid  PRIMARY KEY,
    sale     text  NOT NULL,
    payload  bytea NOT NULL
);
CREATE INDEX recovery_late_by_sale ON recovery_late (sale);

-- +goose Down
DROP TABLE recovery_late;
ALTER TABLE processes DROP COLUMN beats;
ALTER TABLE sales DROP COLUMN epoch_token;
