-- +goose Up
-- Waiting rooms. All times are Unix milliseconds of the database's clock. Those named _rt are in room time, which stands still while the
-- room is held: it is the clock's time minus stopped_ms.
CREATE TABLE waiting_rooms (
    room          text    PRIMARY KEY,
    sale          text    NOT NULL,
    item          text    NOT NULL,
    mode          text    NOT NULL,
    gather_at     bigint  NOT NULL,
    starts_at     bigint  NOT NULL,
    capacity      integer NOT NULL,
    rate_per_min  integer NOT NULL,
    claim_ms      bigint  NOT NULL,
    pass_ms       bigint  NOT NULL,
    bound         text    NOT NULL,
    requires_user integer NOT NULL,
    captcha       integer NOT NULL,
    message       text    NOT NULL DEFAULT '',
    ended         text    NOT NULL DEFAULT '', -- '', exhausted or closed
    ended_at      bigint  NOT NULL DEFAULT 0,
    held          integer NOT NULL DEFAULT 0,
    stalled       integer NOT NULL DEFAULT 0,  -- the stock could not be read
    stopped_at    bigint NOT NULL DEFAULT 0, -- since when room time stands still; 0: it runs
    stopped_ms    bigint NOT NULL DEFAULT 0, -- for how long it stood still before
    ticked_at     bigint  NOT NULL DEFAULT 0,
    credit        double precision NOT NULL DEFAULT 0, -- fractions of turns
    extra         bigint NOT NULL DEFAULT 0, -- turns that an operator gave besides the rate
    brake         double precision NOT NULL DEFAULT 1, -- which part of its turns the room gives, because commits are slow
    commit_lag_ms bigint  NOT NULL DEFAULT 0, -- how long orders wait for their commit
    lanes         text    NOT NULL,            -- JSON: name, share and tier of each lane, one without a name if there are none; served: positions below it have had their turn
    free          bigint NOT NULL DEFAULT 0, -- units, as the last tick read them
    promised      bigint NOT NULL DEFAULT 0, -- units of turns and passes that may still be used
    secret        text    NOT NULL,            -- of the draw; '' when the room is deleted, and only its name is kept
    salt          text    NOT NULL,            -- of the hashes of users
    commitment    text    NOT NULL,
    root          text    NOT NULL DEFAULT '',
    drawn         bigint NOT NULL DEFAULT 0, -- places that were drawn
    drawn_at      bigint  NOT NULL DEFAULT 0,
    beacon           text    NOT NULL DEFAULT '', -- the public random value that the draw depends on: drand, or ''
    beacon_round     bigint  NOT NULL DEFAULT 0,
    beacon_signature text    NOT NULL DEFAULT '',
    listed_at        bigint NOT NULL DEFAULT 0, -- when the list of those who take part was complete
    sale_state       text    NOT NULL DEFAULT '', -- why the sale takes no orders; the room stands still or has ended with it: '', paused, not_started or ended
    page             text    NOT NULL DEFAULT '{}', -- what the page shows and where it leads, in JSON
    CONSTRAINT waiting_rooms_drawn_with_beacon CHECK (beacon = '' OR drawn_at = 0 OR beacon_signature <> '')
);

-- The tail of each queue: joining locks its row, and nothing else does for long.
CREATE TABLE waiting_tails (
    room     text   PRIMARY KEY,
    joined   bigint NOT NULL DEFAULT 0, -- the last number given
    gathered bigint NOT NULL DEFAULT 0,  -- the last one given before the start
    most     integer NOT NULL DEFAULT 1, -- the largest quantity of a place
    lanes    text   NOT NULL            -- JSON: joined and gathered of each lane, in the order of the room's
);

CREATE TABLE waiting_places (
    room        text    NOT NULL,
    seq         bigint  NOT NULL,
    lane        text    NOT NULL, -- '' in a room without lanes
    lane_seq    bigint  NOT NULL, -- the number within the lane, from which the position is computed
    subject     text    NOT NULL, -- hash of the user, or of the random id of somebody unknown
    account     text    NOT NULL, -- the user, '' for somebody unknown
    quantity    integer NOT NULL,
    joined_at   bigint  NOT NULL,
    position    bigint  NOT NULL DEFAULT -1, -- from the turn on; before, it is computed
    turn_rt     bigint  NOT NULL DEFAULT 0,
    turn_at     bigint  NOT NULL DEFAULT 0, -- for the history, like lapsed_at
    until_rt    bigint NOT NULL DEFAULT 0, -- end of the time to claim; a claim that has to wait moves it
    lapsed_at   bigint  NOT NULL DEFAULT 0,
    active_rt   bigint NOT NULL DEFAULT 0, -- end of turn and pass
    admitted_at bigint  NOT NULL DEFAULT 0,
    pass_rt     bigint NOT NULL DEFAULT 0, -- end of the pass
    order_id    text    NOT NULL DEFAULT '',
    done_at     bigint  NOT NULL DEFAULT 0,
    left_at     bigint  NOT NULL DEFAULT 0,
    barred      text    NOT NULL DEFAULT '', -- why
    barred_by   text    NOT NULL DEFAULT '',
    replaced    integer NOT NULL DEFAULT 0,  -- the subject has joined again
    again       integer NOT NULL DEFAULT 0, -- how many places the subject gave up in a row before this one
    changed_at  bigint  NOT NULL DEFAULT 0,
    PRIMARY KEY (room, seq)
);
-- The current place of a subject; found by those who come without a token. Subjects are hashes of their room, so the first column alone finds one
-- place: whatever the planner knows of the table, it reads no others.
CREATE UNIQUE INDEX waiting_places_by_subject ON waiting_places (subject, room) WHERE replaced = 0;
-- The places at some positions, for the controller.
CREATE UNIQUE INDEX waiting_places_by_lane ON waiting_places (room, lane_seq, lane);
-- Turns and passes that may still be used, for the controller.
CREATE INDEX waiting_places_by_activity ON waiting_places (room, active_rt) WHERE active_rt > 0;
-- Those who left before their turn, for the processes' copies.
CREATE INDEX waiting_places_by_change ON waiting_places (room, changed_at) WHERE changed_at > 0;
-- Passes that were given up and would still be valid, which every process reads five times a second.
CREATE INDEX waiting_places_by_return ON waiting_places (room, active_rt) WHERE left_at > 0 AND admitted_at > 0;

-- What operators did to rooms, for the history of a place.
CREATE TABLE waiting_acts (
    room       text   NOT NULL,
    n          bigint NOT NULL, -- from 1, in each room
    at         bigint NOT NULL,
    act        text   NOT NULL, -- hold, resume, advance, rate, message or close
    actor      text   NOT NULL,
    reason     text   NOT NULL,
    detail     text   NOT NULL,
    request_id text   NOT NULL, -- '' or unique in the room: repeated, the act is not done again
    PRIMARY KEY (room, n)
);

-- +goose Down
DROP TABLE waiting_acts;
DROP TABLE waiting_places;
DROP TABLE waiting_tails;
DROP TABLE waiting_rooms;
