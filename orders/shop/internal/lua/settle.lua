-- Deletes reservations that are committed.
--
-- KEYS  prelude.lua
-- ARGV  order ids
-- Reply how many of them were still pending, or -1 when a key is damaged
--
-- One step, so that no order is in the outbox without its reservation, which the sweeper could not commit.
if not (try('ZCARD', outbox) and try('HLEN', pending)) then
  return -1
end
redis.call('ZREM', outbox, unpack(ARGV))
return redis.call('HDEL', pending, unpack(ARGV))
