-- Takes back the reservation of an order that the database rejected, or that has ended there.
--
-- KEYS  prelude.lua
-- ARGV  1 order id, 2 buyer's hash, 3 key's hash, 4 quantity
-- Reply how many units came back
--
-- One step, and only while the reservation is pending and its buyer's mark has
-- it: a second delivery, or one after the order's end, must give nothing back
-- twice. The units are those of the reservation as Redis has it, which
-- reseat.lua has freed of the ones that are another order's. A key stays
-- remembered, the mark of an order without a key does not.
local id, buyer, key, quantity = unpack(ARGV)
local record = redis.call('HGET', pending, id)
redis.call('ZREM', outbox, id)
if not record then
  return 0
end
redis.call('HDEL', pending, id)
if not unmark(id, buyer, quantity) then
  return 0
end
if key == '' then
  redis.call('HDEL', keys, buyer)
end
local units = 0
for unit in string.gmatch(string.match(record, '"u":%[([%d,]*)%]'), '%d+') do
  units = units + redis.call('SADD', returned, unit)
end
redis.call('PEXPIREAT', returned, redis.call('HGET', item, 'forget') or 0)
return units
