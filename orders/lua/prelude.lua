-- Prepended to every script of this folder. All keys of an item live in one slot. Every script declares the keys of one epoch,
-- in this order; those of a recovery declare the key of the item's leader after them.
local item, returned, pending, outbox, keys, buyers, holders, turns, lead = unpack(KEYS)

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- True if this server is the process with that run id. Another process may lack the latest writes. The embedded server has no
-- run id: a new one is always empty.
local function is_server(run)
  return run == 'unknown' or string.find(redis.call('INFO', 'server'), 'run_id:' .. tostring(run), 1, true) ~= nil
end

-- True if the token is that of the leader that may load the item.
local function leads(token)
  return redis.call('HGET', lead, 'token') == token
end

-- Units that were returned are handed out before units that were never sold. The caller has checked that count units are free:
-- back is the number of returned units, next the last unit sold first-hand. It returns the units and the new next, which the
-- caller writes.
local function take_units(count, back, next)
  local units = {}
  if back > 0 then
    units = redis.call('SPOP', returned, math.min(count, back))
  end
  for i = #units + 1, count do
    next = next + 1
    units[i] = next
  end
  return units, next
end

-- body is the reservation as JSON, without the fields that Redis assigns and without its closing brace.
local function reservation(body, units, accepted)
  return body .. ',"u":[' .. table.concat(units, ',') .. '],"t":' .. accepted .. '}'
end

-- A buyer's mark is the units held and the orders that hold them. Removes an order from it; false if it was removed before.
local function unmark(id, buyer, quantity)
  local held, ids = string.match(redis.call('HGET', buyers, buyer) or '', '^(%d+)(.*)$')
  local from, to = string.find((ids or '') .. ' ', ' ' .. id .. ' ', 1, true)
  if not from then
    return false
  end
  ids = string.sub(ids, 1, from - 1) .. string.sub(ids, to)
  if ids == '' then
    redis.call('HDEL', buyers, buyer)
  else
    redis.call('HSET', buyers, buyer, (held - quantity) .. ids)
  end
  return true
end
