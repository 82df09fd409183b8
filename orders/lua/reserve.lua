-- Reserves units for orders that arrived together, or replies why not.
--
-- KEYS  prelude.lua
-- ARGV  1 'late' for orders that were accepted before a recovery: hours and in-flight cap were checked then;
--         the leader's token for the same while the item is being loaded;
--         'repeat' to find the orders of earlier requests and to reserve nothing; otherwise ''
--       2 'kept' when the caller waits until a replica has what its own connection wrote, otherwise ''
--       then six for each order: id, buyer's hash, key's hash or '', quantity, body of the reservation,
--       when it was accepted (ms) or '' for now
-- Reply a list for each order: {word, now in ms, free units, ...}
--       'reserved'         order id, when it was accepted (ms), units
--       'held'             order id, its reservation while uncommitted, otherwise ''
--       'unheld'           a 'repeat' found no order
--       'key_reused'       order id
--       'quota_per_buyer'  id of the buyer's latest order
--       'not_started'      start in ms, or 0 when the sale is not published
--       'paused' 'ended' 'sold_out' 'not_enough' 'at_capacity' 'recovering'
--       'turn_required'    the item has a waiting room, and the buyer no turn, or one that is over, used or for fewer units
--       'forgotten'        Redis does not have this item in this epoch, or the server is another one than it was loaded into
--
-- One step, because units, quota, key, cap, reservation and outbox entry belong together: a crash between separate writes would
-- sell a unit twice or lose an order. Orders are refused before anything is written for them. The writes for all orders of one
-- call are done together at the end, so an order must see what the ones before it are about to write: the tables named new_.
local again, kept = ARGV[1] == 'repeat', ARGV[2] ~= ''
local late = ARGV[1] ~= '' and not again
local now = now_ms()
local replies = {}

local function all(word)
  for i = 1, (#ARGV - 2) / 6 do
    replies[i] = {word, now}
  end
  return replies
end

local it = redis.call('HMGET', item, 'switch', 'starts', 'ends', 'stock', 'next', 'quota', 'in_flight_max', 'forget', 'recovering', 'run', 'room')
if not it[1] then
  return all('forgotten')
end
-- A server other than the one that the item was loaded into may lack the latest accepted orders. A recovery would find what it
-- reserved, and could commit that before those orders. A client cannot prevent it: the request may be in flight when the server
-- is replaced, or the client may have seen the replica before its promotion.
if not is_server(it[10]) then
  return all('forgotten')
end
if it[9] and it[9] ~= ARGV[1] then
  return all('recovering')
end
local switch, starts, ends, stock, next = it[1], tonumber(it[2]), tonumber(it[3]), tonumber(it[4]), tonumber(it[5])
local quota, in_flight_max = tonumber(it[6]), tonumber(it[7])
local room = it[11] ~= '' and it[11]
local back, in_flight = redis.call('SCARD', returned), redis.call('ZCARD', outbox)

local new_keys, new_marks, new_records, new_turns = {}, {}, {}, {}
local to_pending, to_outbox, to_keys, to_buyers, to_holders, to_turns = {}, {}, {}, {}, {}, {}

local function write_later(list, name, value)
  list[#list + 1] = name
  list[#list + 1] = value
end

local function reserve(id, buyer, key, quantity, body, accepted)
  local free = stock - next + back

  -- A repeated request gets its order, even where a new one would be refused.
  local held = new_keys[buyer .. key] or redis.call('HGET', keys, buyer .. key)
  if held then
    local held_id, held_quantity = string.match(held, '^(%S+) (%d+)$')
    if tonumber(held_quantity) ~= quantity then
      return {'key_reused', now, free, held_id}
    end
    local record = new_records[held_id] or redis.call('HGET', pending, held_id)
    if record and kept then
      -- WAIT covers writes of the caller's own connection only, and the caller that wrote it may have timed out: write it
      -- again.
      write_later(to_pending, held_id, record)
    end
    return {'held', now, free, held_id, record or ''}
  end
  if again then
    return {'unheld', now, free}
  end

  if not late then
    if switch == 'closed' or now >= ends then
      return {'ended', now, free}
    elseif switch == 'paused' then
      return {'paused', now, free}
    elseif switch == 'draft' then
      return {'not_started', now, free, 0}
    elseif now < starts then
      return {'not_started', now, free, starts}
    end
  end

  if room and not late then
    -- A turn is the room, the end of the pass in ms and the units it is for; or the room, 'used' and the order;
    -- or the room, 'revoked' and when the buyer was admitted.
    local of, ends_at, units_for = string.match(new_turns[buyer] or redis.call('HGET', turns, buyer) or '', '^(%S+) (%d+) (%d+)$')
    if of ~= room or now >= tonumber(ends_at) or quantity > tonumber(units_for) then
      return {'turn_required', now, free}
    end
  end

  local mark = new_marks[buyer] or redis.call('HGET', buyers, buyer) or '0'
  local units_held, ids = string.match(mark, '^(%d+)(.*)$')
  if units_held + quantity > quota then
    return {'quota_per_buyer', now, free, string.match(ids, ' (%S+)$') or ''}
  end
  if free <= 0 then
    return {'sold_out', now, free}
  elseif free < quantity then
    return {'not_enough', now, free}
  end
  if not late and in_flight >= in_flight_max then
    return {'at_capacity', now, free}
  end

  local units
  units, next = take_units(quantity, back, next)
  back = math.max(0, back - quantity)
  if accepted == '' then
    accepted = string.format('%.0f', now)
  end
  local record = reservation(body, units, accepted)
  in_flight = in_flight + 1
  new_keys[buyer .. key] = id .. ' ' .. quantity
  new_marks[buyer] = (units_held + quantity) .. ids .. ' ' .. id
  new_records[id] = record
  write_later(to_pending, id, record)
  write_later(to_outbox, now, id)
  write_later(to_keys, buyer .. key, new_keys[buyer .. key])
  write_later(to_buyers, buyer, new_marks[buyer])
  to_holders[#to_holders + 1] = string.sub(buyer, 1, 11)
  if room then
    new_turns[buyer] = room .. ' used ' .. id
    write_later(to_turns, buyer, new_turns[buyer])
  end
  return {'reserved', now, free - quantity, id, accepted, unpack(units)}
end

for i = 3, #ARGV, 6 do
  replies[#replies + 1] = reserve(ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3]), ARGV[i + 4], ARGV[i + 5])
end
if #to_pending > 0 then
  redis.call('HSET', pending, unpack(to_pending))
end
if #to_outbox > 0 then
  redis.call('HSET', item, 'next', next)
  redis.call('ZADD', outbox, unpack(to_outbox))
  redis.call('HSET', keys, unpack(to_keys))
  redis.call('HSET', buyers, unpack(to_buyers))
  redis.call('RPUSH', holders, unpack(to_holders))
  if #to_turns > 0 then
    redis.call('HSET', turns, unpack(to_turns))
  end
  -- A key that was emptied is created again, without its expiry.
  for i = 3, #KEYS do
    if redis.call('PTTL', KEYS[i]) < 0 then
      redis.call('PEXPIREAT', KEYS[i], it[8])
    end
  end
end
return replies
