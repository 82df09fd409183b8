-- Closes an item of an epoch that is over, and reads what nobody has committed.
--
-- KEYS  prelude.lua
-- ARGV  1 cursor
-- Reply {next cursor, {order id, reservation, ...}}
--
-- One step: once sealed nothing can be added, so one scan to the end sees everything.
if redis.call('EXISTS', item) == 1 then
  redis.call('HSET', item, 'recovering', 1)
end
return redis.call('HSCAN', pending, ARGV[1], 'COUNT', 1000)
