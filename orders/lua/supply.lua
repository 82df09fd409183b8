-- Reads the free units of an item, which buyers have used their right to order or had it taken back, and which order waits for its commit for longer than 95 %
-- of those that wait.
--
-- KEYS  prelude.lua
-- ARGV  1 room that asks, 2... hashes of buyers
-- Reply {1 if orders need a turn of the room, free, id of the order that waits or '', for each buyer the id of the order,
--       'revoked' and when the buyer was admitted, or ''}, or {} when Redis does not have the item, or may have it in an earlier state, or
--       the item is being recovered
--
-- One step: an order takes its units and uses the right at once, so the waiting room neither promises its units twice nor loses them.
local it = redis.call('HMGET', item, 'stock', 'next', 'recovering', 'room', 'run')
if not it[1] or it[3] or not is_server(it[5]) then
  return {}
end
local reply = {it[4] == ARGV[1] and 1 or 0, it[1] - it[2] + redis.call('SCARD', returned)}
-- At least the third oldest: one order that the database does not take says nothing about the others.
local slow = math.max(2, math.floor(redis.call('ZCARD', outbox) / 20))
reply[3] = redis.call('ZRANGE', outbox, slow, slow)[1] or ''
for i = 2, #ARGV do
  local of, what, rest = string.match(redis.call('HGET', turns, ARGV[i]) or '', '^(%S+) (%S+) (.+)$')
  reply[#reply + 1] = of == ARGV[1] and (what == 'used' and rest or what == 'revoked' and 'revoked ' .. rest) or ''
end
return reply
