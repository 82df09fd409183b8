-- Deletes reservations that are committed.
--
-- KEYS  as in prelude.lua, which does not begin this script: it took a quarter of the script's time, and nothing here needs it
-- ARGV  order ids
-- Reply how many of them were still pending, or -1 when a key is damaged
--
-- One step, so that no order is in the outbox without its reservation, which the sweeper could not commit.
local pending, outbox = KEYS[3], KEYS[4]
if not (try('ZCARD', outbox) and try('HLEN', pending)) then
  return -1
end
redis.call('ZREM', outbox, unpack(ARGV))
return redis.call('HDEL', pending, unpack(ARGV))
