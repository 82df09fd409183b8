-- Reserves units for orders that arrived together, or replies why not.
--
-- KEYS  prelude.lua
-- ARGV  1 'late' for orders that were accepted before a recovery: hours and in-flight cap were checked then;
--         the leader's token for the same while the item is being loaded;
--         'repeat' to find the orders of earlier requests and to reserve nothing; otherwise ''
--       2 'kept' when the caller waits until a replica has what its own connection wrote, otherwise ''
--       3 counts that the caller has seen
--       then six for each order: id, buyer's hash, key's hash or '', quantity, body of the reservation,
--       when it was accepted (ms) or '' for now
-- Reply {now in ms, counts, then one value for each order}: its units if they were reserved, one as a number and several as a
--       list; otherwise {word, free units, ...}
--       'held'             order id, its reservation while uncommitted, otherwise ''
--       'unheld'           a 'repeat' found no order
--       'key_reused'       order id
--       'quota_per_buyer'  id of the buyer's latest order
--       'not_started'      start in ms, or 0 when the sale is not published
--       'paused' 'ended' 'sold_out' 'not_enough' 'at_capacity' 'recovering'
--       'turn_required'    the item has a waiting room, and the buyer no turn, or one that is over, used or for fewer units
--       'damaged'          what Redis has of the buyer, the key or a returned unit cannot be read
--       'forgotten'        Redis does not have this item in this epoch whole, or has it in an earlier state, or the server is another
--                          one than it was loaded into
--
-- One step, because units, quota, key, cap, reservation and outbox entry belong together: a crash between separate writes would
-- sell a unit twice or lose an order. Orders are refused before anything is written for them. The writes for all orders of one
-- call are done together at the end, so an order must see what the ones before it are about to write: the tables named new_.
local again, kept = ARGV[1] == 'repeat', ARGV[2] ~= ''
local late = ARGV[1] ~= '' and not again
local now = now_ms()
local replies = {now, '0 0'}

local function all(word)
  for i = 1, (#ARGV - 3) / 6 do
    replies[i + 2] = {word, 0}
  end
  return replies
end

local it = read(ARGV[3])
if not it then
  return all('forgotten')
end
-- A server other than the one that the item was loaded into may lack the latest accepted orders. A recovery would find what it
-- reserved, and could commit that before those orders. A client cannot prevent it: the request may be in flight when the server
-- is replaced, or the client may have seen the replica before its promotion.
if not is_server(it.server) then
  return all('forgotten')
end
if it.recovering and it.recovering ~= ARGV[1] then
  return all('recovering')
end
local stock, next, quota = it.stock, it.next, it.quota
local room = it.room ~= '' and it.room
local back, in_flight = it.back, it.in_flight
local before = in_flight

local wanted = 0
for i = 7, #ARGV, 6 do
  wanted = wanted + ARGV[i]
end
local again_free, taken = {}, {} -- returned units that may be handed out, and those that are
if back > 0 and not again then
  again_free = returned_units(math.min(wanted, back))
  if not again_free then
    return all('damaged')
  end
end

local new_keys, new_entries, new_records, new_turns = {}, {}, {}, {}
local to_pending, to_outbox, to_keys, to_buyers, to_holders, to_turns = {}, {}, {}, {}, {}, {}

local function write_later(list, name, value)
  list[#list + 1] = name
  list[#list + 1] = value
end

-- Why there are too few units for an order; nil if there are enough.
local function short(free, quantity)
  if free <= 0 then
    return 'sold_out'
  elseif free < quantity then
    return 'not_enough'
  end
end

-- What Redis has of all buyers and keys, read at once: a command costs more than a field.
local identities, by = {}, {}
for i = 4, #ARGV, 6 do
  by[#by + 1] = ARGV[i + 1]
  identities[#by] = ARGV[i + 1] .. ARGV[i + 2]
end
local old_keys = redis.call('HMGET', keys, unpack(identities))
local old_entries = not again and redis.call('HMGET', buyers, unpack(by))
local old_turns = room and not late and not again and redis.call('HMGET', turns, unpack(by))

-- The reply to the nth order.
local function reserve(n, id, buyer, quantity, body, accepted)
  local free = stock - next + back

  -- A repeated request gets its order, even where a new one would be refused.
  local held = new_keys[identities[n]] or old_keys[n]
  if held then
    local held_id, held_quantity = string.match(held, '^(%S+) (%d+)$')
    if not held_id then
      return {'damaged', free}
    end
    if tonumber(held_quantity) ~= quantity then
      return {'key_reused', free, held_id}
    end
    local record = new_records[held_id] or redis.call('HGET', pending, held_id)
    if record and kept then
      -- WAIT covers writes of the caller's own connection only, and the caller that wrote it may have timed out: write it
      -- again.
      write_later(to_pending, held_id, record)
    end
    return {'held', free, held_id, record or ''}
  end
  if again then
    return {'unheld', free}
  end

  if not late then
    local why, start = shut(it, now)
    if why then
      return {why, free, start}
    end
  end

  if room and not late then
    -- A turn is the room, the end of the pass in ms and the units it is for; or the room, 'used' and the order;
    -- or the room, 'revoked' and when the buyer was admitted.
    local of, ends_at, units_for = string.match(new_turns[buyer] or old_turns[n] or '', '^(%S+) (%d+) (%d+)$')
    if of ~= room or now >= tonumber(ends_at) or quantity > tonumber(units_for) then
      -- Without units, waiting for a turn is in vain.
      return {short(free, quantity) or 'turn_required', free}
    end
  end

  local entry = new_entries[buyer] or old_entries[n] or '0'
  local units_held, ids = string.match(entry, '^(%d+)(.*)$')
  if not ids then
    return {'damaged', free}
  end
  if units_held + quantity > quota then
    return {'quota_per_buyer', free, string.match(ids, ' (%S+)$') or ''}
  end
  local why = short(free, quantity)
  if why then
    return {why, free}
  end
  if not late and in_flight >= it.in_flight_max then
    return {'at_capacity', free}
  end

  local units = {}
  for i = 1, quantity do
    if back > 0 then
      units[i] = again_free[#taken + 1]
      taken[#taken + 1] = units[i]
      back = back - 1
    else
      next = next + 1
      units[i] = next
    end
  end
  if accepted == '' then
    accepted = string.format('%.0f', now)
  end
  local record = reservation(body, units, accepted)
  in_flight = in_flight + 1
  new_keys[identities[n]] = id .. ' ' .. quantity
  new_entries[buyer] = (units_held + quantity) .. ids .. ' ' .. id
  new_records[id] = record
  write_later(to_pending, id, record)
  write_later(to_outbox, now, id)
  write_later(to_keys, identities[n], new_keys[identities[n]])
  write_later(to_buyers, buyer, new_entries[buyer])
  to_holders[#to_holders + 1] = string.sub(buyer, 1, 11)
  if room then
    new_turns[buyer] = room .. ' used ' .. id
    write_later(to_turns, buyer, new_turns[buyer])
  end
  return quantity == 1 and units[1] or units -- short, since most replies are this one
end

for i = 4, #ARGV, 6 do
  replies[#replies + 1] = reserve((i + 2) / 6, ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 3]), ARGV[i + 4], ARGV[i + 5])
end
if #to_pending > 0 then
  redis.call('HSET', pending, unpack(to_pending))
end
if #to_outbox > 0 then
  count(it, in_flight - before, 'next', next)
  for i = 1, #taken, 1000 do
    redis.call('SREM', returned, unpack(taken, i, math.min(i + 999, #taken)))
  end
  redis.call('ZADD', outbox, unpack(to_outbox))
  redis.call('HSET', keys, unpack(to_keys))
  redis.call('HSET', buyers, unpack(to_buyers))
  redis.call('RPUSH', holders, unpack(to_holders))
  if #to_turns > 0 then
    redis.call('HSET', turns, unpack(to_turns))
  end
  if it.sentinels == 0 then -- a key that was emptied is created again, without its expiry
    for i = 3, #KEYS do
      redis.call('PEXPIREAT', KEYS[i], it.forget)
    end
  end
end
replies[2] = counts(it)
return replies
