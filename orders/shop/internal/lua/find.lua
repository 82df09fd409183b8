-- Finds an order that is not committed.
--
-- KEYS  prelude.lua
-- ARGV  1 order id, 2 counts that the caller has seen
-- Reply {'pending', reservation}, {'settled', when it was rebuilt or 0 (ms)} when there is none,
--       {'forgotten'} when Redis does not have the item whole, or has it in an earlier state, or the item is being recovered
--
-- One step: if the item were lost between two reads, the reply "none" would be false.
local record = try('HGET', pending, ARGV[1])
if record then
  return {'pending', record}
end
local it = read(ARGV[2])
if not it or it.recovering then
  return {'forgotten'}
end
return {'settled', it.rebuilt or 0}
