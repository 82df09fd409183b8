-- Reads the counts and the reservations that Verify compares.
--
-- KEYS  prelude.lua
-- ARGV  1 counts that the caller has seen, then order id and buyer's hash of each order whose units are being returned
-- Reply {stock, next, number of returned units, {reservations}, length of the outbox, number of uncommitted, {those of the orders in ARGV
--       whose units have not been returned yet}, number of buyers}, {'recovering'}, or {} when forgotten
--
-- One step: reads in parts would be inconsistent while the sale runs.
local it = read(ARGV[1])
if not it then
  return {}
elseif it.recovering then
  return {'recovering'}
end
local returning = {}
for i = 2, #ARGV, 2 do
  local ids = string.match(redis.call('HGET', buyers, ARGV[i + 1]) or '', '^%d+(.*)$') or ''
  if string.find(ids .. ' ', ' ' .. ARGV[i] .. ' ', 1, true) then
    returning[#returning + 1] = ARGV[i]
  end
end
return {
  it.stock,
  it.next,
  it.back,
  redis.call('HVALS', pending),
  it.in_flight,
  redis.call('HLEN', pending) - it.sentinels,
  returning,
  redis.call('HLEN', buyers) - it.sentinels,
}
