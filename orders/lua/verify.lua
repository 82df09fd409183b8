-- Reads everything that Verify compares.
--
-- KEYS  prelude.lua
-- ARGV  order id and buyer's hash of each order whose units are being returned
-- Reply {stock, next, {returned units}, {reservations}, length of the outbox, number of uncommitted, {those of the orders in ARGV
--       whose units have not been returned yet}}, {'recovering'}, or {} when forgotten
--
-- One step: reads in parts would be inconsistent while the sale runs.
local it = redis.call('HMGET', item, 'stock', 'next', 'recovering')
if not it[1] then
  return {}
elseif it[3] then
  return {'recovering'}
end
local returning = {}
for i = 1, #ARGV, 2 do
  local ids = string.match(redis.call('HGET', buyers, ARGV[i + 1]) or '', '^%d+(.*)$') or ''
  if string.find(ids .. ' ', ' ' .. ARGV[i] .. ' ', 1, true) then
    returning[#returning + 1] = ARGV[i]
  end
end
return {
  tonumber(it[1]),
  tonumber(it[2]),
  redis.call('SMEMBERS', returned),
  redis.call('HVALS', pending),
  redis.call('ZCARD', outbox),
  redis.call('HLEN', pending),
  returning,
}
