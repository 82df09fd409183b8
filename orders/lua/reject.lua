-- Takes back the reservation of an order that the database rejected.
--
-- KEYS  item.lua
-- ARGV  1 order id, 2 buyer's hash, 3 key's hash, 4 quantity, 5... units that nobody else owns
-- Reply 1, or 0 when it was taken back before
--
-- One step, and only while the reservation is pending: a second delivery must
-- give nothing back twice. A key stays remembered, the mark of an order
-- without a key does not.
local id, buyer, key, quantity = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
redis.call('ZREM', outbox, id)
if redis.call('HDEL', pending, id) == 0 then
  return 0
end
local units_held, latest = string.match(redis.call('HGET', buyers, buyer) or '0 ', '^(%d+) (%S*)$')
if tonumber(units_held) > quantity then
  redis.call('HSET', buyers, buyer, (units_held - quantity) .. ' ' .. latest)
else
  redis.call('HDEL', buyers, buyer)
end
if key == '' then
  redis.call('HDEL', keys, buyer)
end
for i = 5, #ARGV do
  redis.call('SADD', returned, ARGV[i])
end
redis.call('PEXPIREAT', returned, redis.call('HGET', item, 'forget') or 0)
return 1
