-- Reads the free units of an item, which buyers have used their right to order or had it taken back, and which order waits for its commit for longer than 95 %
-- of those that wait.
--
-- KEYS  prelude.lua
-- ARGV  1 room that asks, 2 counts that the caller has seen, 3... hashes of buyers
-- Reply {1 if orders need a turn of the room, free, why orders are refused now or '', id of the order that waits or '', for each buyer the id of the order,
--       'revoked' and when the buyer was admitted, or ''}, or {} when Redis does not have the item whole, or may have it in an earlier state, or
--       the item is being recovered
--
-- One step: an order takes its units and uses the right at once, so the waiting room neither promises its units twice nor loses them.
local it = read(ARGV[2])
if not it or it.recovering or not is_server(it.server) then
  return {}
end
local reply = {it.room == ARGV[1] and 1 or 0, it.stock - it.next + it.back, shut(it, now_ms()) or ''}
-- At least the third oldest: one order that the database does not take is no evidence about the others.
local slow = math.max(2, math.floor((it.in_flight) / 20))
reply[4] = redis.call('ZRANGE', outbox, slow, slow)[1] or ''
for i = 3, #ARGV do
  local of, what, rest = string.match(redis.call('HGET', turns, ARGV[i]) or '', '^(%S+) (%S+) (.+)$')
  reply[#reply + 1] = of == ARGV[1] and (what == 'used' and rest or what == 'revoked' and 'revoked ' .. rest) or ''
end
return reply
