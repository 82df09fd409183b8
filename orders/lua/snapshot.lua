-- Reads the state of an item.
--
-- KEYS  prelude.lua
-- ARGV  1 number of holders that the caller has, 2 maximum number of holders to read
-- Reply {now in ms, free, 1 while recovering, switch, number of holders, {further holders}}, or {now in ms} when forgotten
--
-- One step, so that the list of holders is complete if the item cannot be ordered.
local now = now_ms()
local it = redis.call('HMGET', item, 'stock', 'next', 'recovering', 'switch')
if not it[1] then
  return {now}
end
local from = tonumber(ARGV[1])
return {
  now,
  it[1] - it[2] + redis.call('SCARD', returned),
  it[3] and 1 or 0,
  it[4],
  redis.call('LLEN', holders),
  redis.call('LRANGE', holders, from, from + ARGV[2] - 1),
}
