-- Releases the reservation of an order that the database rejected, or that has ended there.
--
-- KEYS  prelude.lua
-- ARGV  1 order id, 2 buyer's hash, 3 key's hash, 4 quantity, 5 counts that the caller has seen
-- Reply {counts, how many units were returned}, or {} when Redis does not have the item whole, or has it in an earlier state
--
-- One step, and only while the reservation is pending and in its buyer's entry: a second delivery, or one after the order's end,
-- must not return units twice. The units are those of the reservation in Redis, from which reassign.lua has removed those of
-- other orders. A key stays remembered; the entry of an order without a key is deleted.
local id, buyer, key, quantity = unpack(ARGV)
local it = read(ARGV[5])
if not it then
  return {}
end
local record = redis.call('HGET', pending, id)
redis.call('ZREM', outbox, id)
if not record then
  return {counts(it), 0}
end
redis.call('HDEL', pending, id)
if not remove_from_entry(id, buyer, quantity) then
  return {counts(it), 0}
end
if key == '' then
  redis.call('HDEL', keys, buyer)
end
local units = 0
for unit in string.gmatch(string.match(record, '"u":%[([%d,]*)%]') or '', '%d+') do
  units = units + redis.call('SADD', returned, unit)
end
count(it, 1)
if it.sentinels == 0 then
  redis.call('PEXPIREAT', returned, it.forget)
end
return {counts(it), units}
