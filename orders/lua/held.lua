-- Finds what one buyer ordered and the database does not have yet.
--
-- KEYS  prelude.lua
-- ARGV  1 buyer's hash
-- Reply {ms since the item was rebuilt, or -1, {reservations}}
--
-- One step: an order that is committed between two would be in neither place.
local found = {}
for id in string.gmatch(redis.call('HGET', buyers, ARGV[1]) or '', ' (%S+)') do
  found[#found + 1] = redis.call('HGET', pending, id) or nil
end
local rebuilt = redis.call('HGET', item, 'rebuilt')
return {rebuilt and now_ms() - rebuilt or -1, found}
