-- Finds an order that is not committed.
--
-- KEYS  prelude.lua
-- ARGV  1 order id
-- Reply {'pending', reservation}, {'settled', when it was rebuilt or 0 (ms)} when there is none,
--       {'forgotten'} when Redis does not have the item, or the item is being recovered
--
-- One step: if the item were lost between two reads, the reply "none" would be false.
local record = redis.call('HGET', pending, ARGV[1])
if record then
  return {'pending', record}
end
local it = redis.call('HMGET', item, 'switch', 'recovering', 'rebuilt')
if not it[1] or it[2] then
  return {'forgotten'}
end
return {'settled', it[3] or 0}
