-- Prepended to every script of this folder, after try.lua of package redisscript. All keys of an item live in one slot. Every script declares the keys of one epoch,
-- in this order; those of a recovery declare the key of the item's leader after them.
--
-- Redis does not undo the writes of a script that fails, so a script checks everything before its first write.
local item, returned, pending, outbox, keys, buyers, holders, turns, lead = unpack(KEYS)

-- Every collection of an item has this element for as long as the item is remembered, so a collection that is missing was lost.
-- Items that versions before have loaded do not, and have the field `run` instead of `server`.
local sentinel = '-'

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- True if this server is the process with that run id. Another process may lack the latest writes. The embedded server has no
-- run id: a new one is always empty.
local function is_server(run)
  return run == 'unknown' or string.find(redis.call('INFO', 'server'), 'run_id:' .. tostring(run), 1, true) ~= nil
end

-- Why orders of the item are refused now: 'ended', 'paused' or 'not_started', and then the start in ms, or 0 when the sale is a draft; nil while
-- the sale is open.
local function shut(it, now)
  if it.switch == 'closed' or now >= it.ends then
    return 'ended'
  elseif it.switch == 'paused' then
    return 'paused'
  elseif it.switch == 'draft' then
    return 'not_started', 0
  elseif now < it.starts then
    return 'not_started', it.starts
  end
end

-- A whole number that JavaScript and Lua represent exactly, or nil.
local function whole(text)
  local n = tonumber(text)
  return n and n == math.floor(n) and math.abs(n) < 2 ^ 53 and n or nil
end

-- The item has a count of all writes to its orders and units, and one of those by each process: a process that misses writes of its own
-- notices that also when others have written as many since. seen is what the caller last read: 'all writes, its name, its own writes'.
--
-- Reads the item. It returns nil if Redis does not have it as the caller last read it: the item or one of its collections was lost or
-- is of another type, a number is damaged, or its counts are lower than the caller has seen, so this is an earlier state.
-- back and in_flight are the lengths of returned and outbox; sentinels is 1 if collections have a sentinel.
local function read(seen)
  local all, caller, own = string.match(seen, '^(%d+) (%S+) (%d+)$')
  local fields = {'starts', 'ends', 'stock', 'next', 'quota', 'in_flight_max', 'forget', 'writes', 'writes:' .. caller,
    'switch', 'recovering', 'server', 'run', 'room', 'rebuilt', 'revision'}
  local values = try('HMGET', item, unpack(fields))
  if not values or not values[10] then
    return nil
  end
  local it = {}
  for i, name in ipairs(fields) do
    it[name] = values[i]
    if i <= 9 then
      it[name] = whole(values[i] or i >= 8 and 0)
      if not it[name] then
        return nil
      end
    end
  end
  it.caller = fields[9]
  if it.writes < tonumber(all) or it[it.caller] < tonumber(own) then
    return nil
  end
  it.sentinels = it.server and 1 or 0
  it.server = it.server or it.run
  local sizes = {try('SCARD', returned), try('ZCARD', outbox), try('HLEN', pending), try('HLEN', keys), try('HLEN', buyers),
    try('LLEN', holders), try('HLEN', turns)}
  for i = 1, 7 do
    if (sizes[i] or -1) < it.sentinels then
      return nil
    end
  end
  it.back, it.in_flight = sizes[1] - it.sentinels, sizes[2] - it.sentinels
  return it
end

-- Counts n writes of the caller, and writes the item's further fields.
local function count(it, n, ...)
  it.writes, it[it.caller] = it.writes + n, it[it.caller] + n
  redis.call('HSET', item, 'writes', it.writes, it.caller, it[it.caller], ...)
end

-- The counts in the form of a reply.
local function counts(it)
  return it.writes .. ' ' .. it[it.caller]
end

-- Creates the item and its collections, each with its sentinel.
local function create(forget, ...)
  redis.call('HSET', item, 'next', 0, 'writes', 0, 'forget', forget, ...)
  redis.call('SADD', returned, sentinel)
  redis.call('ZADD', outbox, '+inf', sentinel)
  redis.call('RPUSH', holders, sentinel)
  for _, key in ipairs({pending, keys, buyers, turns}) do
    redis.call('HSET', key, sentinel, '')
  end
  for i = 1, 8 do
    redis.call('PEXPIREAT', KEYS[i], forget)
  end
end

-- True if the token is that of the leader that may load the item.
local function leads(token)
  return try('HGET', lead, 'token') == token
end

-- Returns at most count units that were returned: they are handed out before units that were never sold. The caller removes
-- those that it hands out. It returns nil if one is no number.
local function returned_units(count)
  local units = {}
  for _, unit in ipairs(redis.call('SRANDMEMBER', returned, count + 1)) do
    if unit ~= sentinel and #units < count then
      unit = whole(unit)
      if not unit then
        return nil
      end
      units[#units + 1] = unit
    end
  end
  return units
end

-- body is the reservation as JSON, without the fields that Redis assigns and without its closing brace.
local function reservation(body, units, accepted)
  return body .. ',"u":[' .. table.concat(units, ',') .. '],"t":' .. accepted .. '}'
end

-- A buyer's entry is the units held and the orders that hold them. Removes an order from it; false if it was removed before.
local function remove_from_entry(id, buyer, quantity)
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
