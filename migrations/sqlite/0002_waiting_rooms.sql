-- +goose Up
-- The same as for Postgres, whose file explains it.
CREATE TABLE waiting_rooms (
    room          text    PRIMARY KEY,
    sale          text    NOT NULL,
    item          text    NOT NULL,
    mode          text    NOT NULL,
    gather_at     integer  NOT NULL,
    starts_at     integer  NOT NULL,
    capacity      integer NOT NULL,
    rate_per_min  integer NOT NULL,
    claim_ms      integer  NOT NULL,
    pass_ms       integer  NOT NULL,
    bound         text    NOT NULL,
    requires_user integer NOT NULL,
    captcha       integer NOT NULL,
    message       text    NOT NULL DEFAULT '',
    ended         text    NOT NULL DEFAULT '',
    ended_at      integer  NOT NULL DEFAULT 0,
    held          integer NOT NULL DEFAULT 0,
    stalled       integer NOT NULL DEFAULT 0,
    stopped_at    integer  NOT NULL DEFAULT 0,
    stopped_ms    integer  NOT NULL DEFAULT 0,
    ticked_at     integer  NOT NULL DEFAULT 0,
    credit        real NOT NULL DEFAULT 0,
    extra         integer  NOT NULL DEFAULT 0,
    brake         real NOT NULL DEFAULT 1,
    commit_lag_ms integer  NOT NULL DEFAULT 0,
    lanes         text    NOT NULL,
    free          integer  NOT NULL DEFAULT 0,
    promised      integer  NOT NULL DEFAULT 0,
    secret        text    NOT NULL,
    salt          text    NOT NULL,
    commitment    text    NOT NULL,
    root          text    NOT NULL DEFAULT '',
    drawn         integer  NOT NULL DEFAULT 0,
    drawn_at      integer  NOT NULL DEFAULT 0,
    beacon           text    NOT NULL DEFAULT '', -- the public random value that the draw depends on: drand, or ''
    beacon_round     integer  NOT NULL DEFAULT 0,
    beacon_signature text    NOT NULL DEFAULT '',
    listed_at        integer  NOT NULL DEFAULT 0,  -- when the list of those who take part was complete
    sale_state       text    NOT NULL DEFAULT '', -- why the sale takes no orders; the room stands still or has ended with it: '', paused, not_started or ended
    page             text    NOT NULL DEFAULT '{}' -- what the page shows and where it leads, in JSON
) STRICT;

CREATE TABLE waiting_tails (
    room     text   PRIMARY KEY,
    joined   integer NOT NULL DEFAULT 0,
    gathered integer NOT NULL DEFAULT 0,
    most     integer NOT NULL DEFAULT 1,
    lanes    text   NOT NULL
) STRICT;

CREATE TABLE waiting_places (
    room        text    NOT NULL,
    seq         integer  NOT NULL,
    lane        text    NOT NULL,
    lane_seq    integer NOT NULL,
    subject     text    NOT NULL,
    account     text    NOT NULL,
    quantity    integer NOT NULL,
    joined_at   integer  NOT NULL,
    position    integer  NOT NULL DEFAULT -1,
    turn_rt     integer  NOT NULL DEFAULT 0,
    turn_at     integer  NOT NULL DEFAULT 0,
    until_rt    integer  NOT NULL DEFAULT 0,
    lapsed_at   integer  NOT NULL DEFAULT 0,
    active_rt   integer  NOT NULL DEFAULT 0,
    admitted_at integer  NOT NULL DEFAULT 0,
    pass_rt     integer  NOT NULL DEFAULT 0,
    order_id    text    NOT NULL DEFAULT '',
    done_at     integer  NOT NULL DEFAULT 0,
    left_at     integer  NOT NULL DEFAULT 0,
    barred      text    NOT NULL DEFAULT '',
    barred_by   text    NOT NULL DEFAULT '',
    replaced    integer NOT NULL DEFAULT 0,
    again       integer NOT NULL DEFAULT 0,
    changed_at  integer  NOT NULL DEFAULT 0,
    PRIMARY KEY (room, seq)
) STRICT;

CREATE UNIQUE INDEX waiting_places_by_subject ON waiting_places (subject, room) WHERE replaced = 0;

CREATE UNIQUE INDEX waiting_places_by_lane ON waiting_places (room, lane_seq, lane);

CREATE INDEX waiting_places_by_activity ON waiting_places (room, active_rt) WHERE active_rt > 0;

CREATE INDEX waiting_places_by_change ON waiting_places (room, changed_at) WHERE changed_at > 0;

CREATE INDEX waiting_places_by_return ON waiting_places (room, active_rt) WHERE left_at > 0 AND admitted_at > 0;

CREATE TABLE waiting_acts (
    room       text   NOT NULL,
    n          integer NOT NULL,
    at         integer NOT NULL,
    act        text   NOT NULL,
    actor      text   NOT NULL,
    reason     text   NOT NULL,
    detail     text   NOT NULL,
    request_id text   NOT NULL,
    PRIMARY KEY (room, n)
) STRICT;

-- Without it, verify reads all events for each order of the sale. Postgres has a coarse index of them.
CREATE INDEX order_events_by_order ON order_events (order_id);

-- +goose Down
DROP TABLE waiting_acts;
DROP TABLE waiting_places;
DROP TABLE waiting_tails;
DROP TABLE waiting_rooms;
