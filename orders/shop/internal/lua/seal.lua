-- Closes an item in an epoch that is over, and reads the uncommitted reservations.
--
-- KEYS  prelude.lua, then the leader
-- ARGV  1 token of the leader of a later epoch, 2 cursor
-- Reply {next cursor, {order id, reservation, ...}}, or {} when another leader has the item
--
-- One step: nothing can be added after the sealing, so one complete scan reads everything. The token replaces that of the
-- epoch's own leader, which cannot open the item any more.
if not leads(ARGV[1]) then
  return {}
end
local fields = try('HLEN', item)
if not fields then
  redis.call('DEL', item) -- scripts refuse a missing item in the same way as a closed one
elseif fields > 0 then
  redis.call('HSET', item, 'recovering', ARGV[1])
end
return try('HSCAN', pending, ARGV[2], 'COUNT', 1000) or {'0', {}}
