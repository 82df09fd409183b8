-- Replaces the units of an uncommitted order that belong to another order in the database.
--
-- KEYS  prelude.lua
-- ARGV  1 order id, 2 the reservation the caller has, 3 body of the reservation, 4 when it was accepted (ms),
--       5 how many new units, 6... the units it keeps
-- Reply {'reassigned', reservation}, also when another caller was first,
--       {'sold_out'} when none are free: the order is left with the units it keeps, or
--       {'gone'} when it is not pending here, the epoch is over, or the server is another one than the item was loaded into
--
-- One step and compared with what the caller has, so that an order that is delivered twice does not take new units twice. The
-- disputed units are not returned: they belong to another order.
local id, fresh = ARGV[1], tonumber(ARGV[5])
local record = redis.call('HGET', pending, id)
if not record then
  return {'gone'}
elseif record ~= ARGV[2] then
  return {'reassigned', record}
end
local it = redis.call('HMGET', item, 'stock', 'next', 'recovering', 'run')
if not it[1] or it[3] or not is_server(it[4]) then
  return {'gone'}
end
local units, next = {}, tonumber(it[2])
local back = redis.call('SCARD', returned)
local enough = it[1] - next + back >= fresh
if enough then
  units, next = take_units(fresh, back, next)
  redis.call('HSET', item, 'next', next)
end
for i = 6, #ARGV do
  units[#units + 1] = ARGV[i]
end
record = reservation(ARGV[3], units, ARGV[4])
redis.call('HSET', pending, id, record)
if not enough then
  return {'sold_out'}
end
return {'reassigned', record}
