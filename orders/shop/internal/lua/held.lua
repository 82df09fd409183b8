-- Finds the orders of one buyer that the database does not have yet.
--
-- KEYS  prelude.lua
-- ARGV  1 buyer's hash, 2 counts that the caller has seen
-- Reply {'held', {reservations}}, or {'forgotten'} when Redis does not have the item whole, or has it in an
--       earlier state, or the item is being recovered
--
-- One step: an order that is committed between two reads would be in neither.
local it = read(ARGV[2])
if not it or it.recovering then
  return {'forgotten'}
end
local found = {}
for id in string.gmatch(redis.call('HGET', buyers, ARGV[1]) or '', ' (%S+)') do
  found[#found + 1] = redis.call('HGET', pending, id) or nil
end
return {'held', found}
