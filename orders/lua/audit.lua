-- Reads everything that must add up.
--
-- KEYS  prelude.lua
-- ARGV  none
-- Reply {stock, next, {returned units}, {reservations}, length of the outbox, number of uncommitted}, or {} when forgotten
--
-- One step: read in pieces, a running sale would never add up.
local it = redis.call('HMGET', item, 'stock', 'next')
if not it[1] then
  return {}
end
return {
  tonumber(it[1]),
  tonumber(it[2]),
  redis.call('SMEMBERS', returned),
  redis.call('HVALS', pending),
  redis.call('ZCARD', outbox),
  redis.call('HLEN', pending),
}
