-- Takes a unit for each of the orders that arrived together. One step, because units, buyers and records belong together.
--
-- KEYS  item, buyers, accepted, waiting, wake
-- ARGV  of each order its id, its buyer, and its record without the closing brace
-- Reply of each order its unit; 0 sold out, -1 the buyer has an order, -2 the buyer has tried too often within a minute
local have = redis.call('HMGET', KEYS[1], 'stock', 'next')
local stock, unit = tonumber(have[1]), tonumber(have[2])
local names, windows = {}, {}
for i = 1, #ARGV / 3 do
  names[i] = ARGV[3 * i - 1]
  windows[i] = '{floor}:tries:' .. names[i]
end
local held, tries = redis.call('HMGET', KEYS[2], unpack(names)), redis.call('MGET', unpack(windows))
local reply, holds, records, ids, taken = {}, {}, {}, {}, {}
for i, name in ipairs(names) do
  local n = tonumber(tries[i] or 0)
  if n == 0 then
    redis.call('SET', windows[i], 1, 'PX', 60000)
  else
    redis.call('INCR', windows[i])
  end
  if n >= 100 then
    reply[i] = -2
  elseif held[i] or taken[name] then
    reply[i] = -1
  elseif unit >= stock then
    reply[i] = 0
  else
    unit = unit + 1
    reply[i], taken[name] = unit, true
    local id, at = ARGV[3 * i - 2], 2 * #ids
    holds[at + 1], holds[at + 2] = name, id
    records[at + 1], records[at + 2] = id, ARGV[3 * i] .. ',"unit":' .. unit .. '}'
    ids[#ids + 1] = id
  end
end
if #ids > 0 then
  redis.call('HSET', KEYS[1], 'next', unit)
  redis.call('HSET', KEYS[2], unpack(holds))
  redis.call('HSET', KEYS[3], unpack(records))
  if redis.call('RPUSH', KEYS[4], unpack(ids)) == #ids then
    redis.call('RPUSH', KEYS[5], '')
  end
end
return reply
