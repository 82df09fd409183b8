-- Puts the units of orders that ended unpaid on sale again.
--
-- KEYS  prelude.lua
-- ARGV  1 counts that the caller has seen, then for each order: order id, buyer's hash, '1' when it had no key, quantity, its units joined by commas
-- Reply {counts, how many units were returned}, or {} when the call has to be repeated: Redis does not have the item
--       whole, or has it in an earlier state, or the item is being recovered
--
-- One step: an order returns its units once, when it is removed from its buyer's entry. While the item is being loaded, it is
-- unknown whether the load counted the order.
local it = read(ARGV[1])
if not it or it.recovering then
  return {}
end
local back, ended = 0, 0
for i = 2, #ARGV, 5 do
  local id, buyer = ARGV[i], ARGV[i + 1]
  if remove_from_entry(id, buyer, ARGV[i + 3]) then
    ended = ended + 1
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
count(it, ended)
if it.sentinels == 0 then
  redis.call('PEXPIREAT', returned, it.forget)
end
return {counts(it), back}
