-- Reserves units for one order, or says why not.
--
-- KEYS  prelude.lua
-- ARGV  1 order id, 2 buyer's hash, 3 key's hash or '', 4 quantity, 5 body of the reservation,
--       6 'late' for an order that was accepted before a recovery: hours and in-flight cap were its past's;
--         the leader's token for the same while the item is being loaded;
--         'repeat' to find the order of an earlier request and to reserve nothing; else ''
--       7 when it was accepted (ms), '' for now
--       8 'kept' when the caller waits until a replica has what its own connection wrote, else ''
-- Reply {word, now in ms, free units, ...}
--       'reserved'         order id, reservation
--       'held'             order id, its reservation while uncommitted, else ''
--       'unheld'           a 'repeat' found no order
--       'key_reused'       order id
--       'quota_per_buyer'  id of the buyer's latest order
--       'not_started'      start in ms, or 0 when the sale is not published
--       'paused' 'ended' 'sold_out' 'not_enough' 'at_capacity' 'recovering'
--       'forgotten'        Redis knows nothing of this item in this epoch
--
-- One step, because units, quota, key, cap, reservation and outbox entry are
-- one promise: taken apart, a crash in between sells twice or loses an order.
-- Whatever is refused is refused before the first write.
local id, buyer, key, quantity, body = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local late = ARGV[6] ~= ''
local now = now_ms()

local it = redis.call('HMGET', item, 'switch', 'starts', 'ends', 'stock', 'next', 'quota', 'in_flight_max', 'forget', 'recovering', 'run')
if not it[1] then
  return {'forgotten', now}
end
-- Another server than the one that the item was loaded into may lack what was
-- promised last. The recovery would find what it reserved, and could commit that
-- before those promises. A client cannot prevent it: the request may be on its way when
-- the server is replaced, or a replica be promoted that the client had met before.
if not is_server(it[10]) then
  return {'forgotten', now}
end
if it[9] and it[9] ~= ARGV[6] then
  return {'recovering', now}
end
local switch, starts, next = it[1], tonumber(it[2]), tonumber(it[5])
local free = tonumber(it[4]) - next + redis.call('SCARD', returned)

-- Replay comes before every refusal.
local held = redis.call('HGET', keys, buyer .. key)
if held then
  local held_id, held_quantity = string.match(held, '^(%S+) (%d+)$')
  if tonumber(held_quantity) ~= quantity then
    return {'key_reused', now, free, held_id}
  end
  local record = redis.call('HGET', pending, held_id)
  if record and ARGV[8] ~= '' then
    -- Who wrote it may have waited in vain, and waiting covers one's own writes only: written again it is the caller's.
    redis.call('HSET', pending, held_id, record)
  end
  return {'held', now, free, held_id, record or ''}
end
if ARGV[6] == 'repeat' then
  return {'unheld', now, free}
end

if not late then
  if switch == 'closed' or now >= tonumber(it[3]) then
    return {'ended', now, free}
  elseif switch == 'paused' then
    return {'paused', now, free}
  elseif switch == 'draft' then
    return {'not_started', now, free, 0}
  elseif now < starts then
    return {'not_started', now, free, starts}
  end
end

local mark = redis.call('HGET', buyers, buyer) or '0'
local units_held, latest = string.match(mark, '^%d+'), string.match(mark, ' (%S+)$') or ''
if units_held + quantity > tonumber(it[6]) then
  return {'quota_per_buyer', now, free, latest}
end
if free <= 0 then
  return {'sold_out', now, free}
elseif free < quantity then
  return {'not_enough', now, free}
end
if not late and redis.call('ZCARD', outbox) >= tonumber(it[7]) then
  return {'at_capacity', now, free}
end

local accepted = ARGV[7]
if accepted == '' then
  accepted = string.format('%.0f', now)
end
local record = write_reservation(id, body, take_units(quantity, next), accepted)
redis.call('ZADD', outbox, now, id)
redis.call('HSET', keys, buyer .. key, id .. ' ' .. quantity)
redis.call('HSET', buyers, buyer, (units_held + quantity) .. string.match(mark, '^%d+(.*)$') .. ' ' .. id)
redis.call('RPUSH', holders, string.sub(buyer, 1, 11))
for i = 3, #KEYS do
  redis.call('PEXPIREAT', KEYS[i], it[8])
end
return {'reserved', now, free - quantity, id, record}
