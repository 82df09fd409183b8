-- Puts the units of orders that ended unpaid on sale again.
--
-- KEYS  prelude.lua
-- ARGV  for each order: order id, buyer's hash, '1' when it had no key, quantity, its units joined by commas
-- Reply how many units were returned, or 'recovering' or 'forgotten' when the call has to be repeated
--
-- One step: an order returns its units once, when it is removed from its buyer's mark. While the item is being loaded, it is
-- unknown whether the load counted the order.
local it = redis.call('HMGET', item, 'forget', 'recovering')
if not it[1] then
  return 'forgotten'
elseif it[2] then
  return 'recovering'
end
local back = 0
for i = 1, #ARGV, 5 do
  local id, buyer = ARGV[i], ARGV[i + 1]
  if unmark(id, buyer, ARGV[i + 3]) then
    if ARGV[i + 2] == '1' then
      redis.call('HDEL', keys, buyer)
    end
    -- Redis may not be updated for its commit yet.
    redis.call('HDEL', pending, id)
    redis.call('ZREM', outbox, id)
    for unit in string.gmatch(ARGV[i + 4], '%d+') do
      back = back + redis.call('SADD', returned, unit)
    end
  end
end
redis.call('PEXPIREAT', returned, it[1])
return back
