-- Prepended to every script of this folder but settle.lua, after try.lua of package redisscript. All keys of an item live in one slot.
-- Every script declares the keys of one epoch, in this order; those of a recovery declare the key of the item's leader after them.
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
  return n and n % 1 == 0 and n < 2 ^ 53 and n > -2 ^ 53 and n or nil
end

-- The item has a count of all writes to its orders and units, and one of those by each process: a process that misses writes of its own
-- notices that also when others have written as many since. seen is what the caller last read: 'all writes, its name, its own writes'.
--
-- Reads the item. It returns nil if Redis does not have it as the caller last read it: the item or one of its collections was lost or
-- is of another type, a number is damaged, or its counts are lower than the caller has seen, so this is an earlier state.
-- writes and own count all writes and the caller's, caller_writes is the field of the latter; server is the run id of the server that has
-- the item; back and in_flight are the lengths of returned and outbox; sentinels is 1 if collections have a sentinel.
local function read(seen)
  local all, caller, own = string.match(seen, '^(%d+) (%S+) (%d+)$')
  local caller_writes = 'writes:' .. caller
  local v = try('HMGET', item, 'starts', 'ends', 'stock', 'next', 'quota', 'in_flight_max', 'forget', 'writes', caller_writes, 'switch',
    'recovering', 'server', 'run', 'room', 'rebuilt', 'revision')
  if not v or not v[10] then
    return nil
  end
  for i = 1, 9 do -- the numbers; writes are missing while there was none
    v[i] = whole(v[i] or i >= 8 and 0)
    if not v[i] then
      return nil
    end
  end
  if v[8] < tonumber(all) or v[9] < tonumber(own) then
    return nil
  end
  local sentinels = v[12] and 1 or 0
  local back, in_flight = try('SCARD', returned) or -1, try('ZCARD', outbox) or -1
  if math.min(back, in_flight, try('HLEN', pending) or -1, try('HLEN', keys) or -1, try('HLEN', buyers) or -1, try('LLEN', holders) or -1,
    try('HLEN', turns) or -1) < sentinels then
    return nil
  end
  return { -- in one go: a table that grows field by field is allocated again and again
    starts = v[1], ends = v[2], stock = v[3], next = v[4], quota = v[5], in_flight_max = v[6], forget = v[7], writes = v[8],
    caller_writes = caller_writes, own = v[9], switch = v[10], recovering = v[11], server = v[12] or v[13], room = v[14], rebuilt = v[15],
    revision = v[16], sentinels = sentinels, back = back - sentinels, in_flight = in_flight - sentinels,
  }
end

-- Counts n writes of the caller, and writes the item's further fields.
local function count(it, n, ...)
  it.writes, it.own = it.writes + n, it.own + n
  redis.call('HSET', item, 'writes', it.writes, it.caller_writes, it.own, ...)
end

-- The counts in the form of a reply.
local function counts(it)
  return it.writes .. ' ' .. it.own
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
