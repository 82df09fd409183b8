-- Finds the orders of one buyer that the database does not have yet.
--
-- KEYS  prelude.lua
-- ARGV  1 buyer's hash
-- Reply {'held', {reservations}}, or {'forgotten'} when Redis does not have the item, or the item is being recovered
--
-- One step: an order that is committed between two reads would be in neither.
local it = redis.call('HMGET', item, 'switch', 'recovering')
if not it[1] or it[2] then
  return {'forgotten'}
end
local found = {}
for id in string.gmatch(redis.call('HGET', buyers, ARGV[1]) or '', ' (%S+)') do
  found[#found + 1] = redis.call('HGET', pending, id) or nil
end
return {'held', found}
