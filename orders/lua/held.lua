-- Finds what one buyer ordered and the database does not have yet.
--
-- KEYS  prelude.lua
-- ARGV  1 buyer's hash
-- Reply {'held', {reservations}}, {'forgotten'} when Redis cannot know
--
-- One step: an order that is committed between two would be in neither place.
local it = redis.call('HMGET', item, 'switch', 'recovering')
if not it[1] or it[2] then
  return {'forgotten'}
end
local found = {}
for id in string.gmatch(redis.call('HGET', buyers, ARGV[1]) or '', ' (%S+)') do
  found[#found + 1] = redis.call('HGET', pending, id) or nil
end
return {'held', found}
