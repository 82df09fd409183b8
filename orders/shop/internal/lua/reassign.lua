-- Replaces the units of an uncommitted order that belong to another order in the database.
--
-- KEYS  prelude.lua
-- ARGV  1 order id, 2 the reservation the caller has, 3 body of the reservation, 4 when it was accepted (ms),
--       5 how many new units, 6 counts that the caller has seen, 7... the units it keeps
-- Reply {'reassigned', reservation, counts, 0 0 when unknown}, also when another caller was first,
--       {'sold_out'} when none are free: the order is left with the units it keeps, or
--       {'gone'} when it is not pending here, the epoch is over, Redis does not have the item whole or has it in an earlier state, a
--       returned unit cannot be read, or the server is another one than the item was loaded into
--
-- One step and compared with what the caller has, so that an order that is delivered twice does not take new units twice. The
-- disputed units are not returned: they belong to another order.
local id, fresh = ARGV[1], tonumber(ARGV[5])
local record = try('HGET', pending, id)
if not record then
  return {'gone'}
elseif record ~= ARGV[2] then
  return {'reassigned', record, '0 0'}
end
local it = read(ARGV[6])
if not it or it.recovering or not is_server(it.server) then
  return {'gone'}
end
local units, next = {}, it.next
local back = it.back
local enough = it.stock - next + back >= fresh
if enough then
  if back > 0 then
    units = returned_units(math.min(fresh, back))
    if not units then
      return {'gone'}
    end
    redis.call('SREM', returned, unpack(units))
  end
  for i = #units + 1, fresh do
    next = next + 1
    units[i] = next
  end
end
count(it, 1, 'next', next)
for i = 7, #ARGV do
  units[#units + 1] = ARGV[i]
end
record = reservation(ARGV[3], units, ARGV[4])
redis.call('HSET', pending, id, record)
if not enough then
  return {'sold_out'}
end
return {'reassigned', record, counts(it)}
