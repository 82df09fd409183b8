-- Deletes reservations that are committed.
--
-- KEYS  prelude.lua
-- ARGV  order ids
-- Reply how many of them were still pending
--
-- One step, so that no order is in the outbox without its reservation, which the sweeper could not commit.
redis.call('ZREM', outbox, unpack(ARGV))
return redis.call('HDEL', pending, unpack(ARGV))
